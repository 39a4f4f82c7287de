/*
 * fake_cuda.h - a driver of CUDA without a device, for tests: what its library has beside functions of the driver. Its
 * device memory is the host's, its kernel is the emulation.
 *
 * Work on a stream is done when something waits for it, and not before: a program that does not wait sees that nothing
 * has happened. All calls may come from any thread.
 */
#ifndef LMC_TEST_FAKE_CUDA_H
#define LMC_TEST_FAKE_CUDA_H

/* Everything as it was at the beginning, but for contexts and memory. */
void fake_cuda_reset(void);

/* From now on this function of the driver fails with an error; 0: no more. Work on a stream that fails later does so by
 * the name "work". */
void fake_cuda_fail(const char *function, int error);

/* How often this function was called. */
unsigned fake_cuda_calls(const char *function);

/* What the device and the driver are: at first compute capability 9.0, 4 multiprocessors, CUDA 12.9, one device. */
void fake_cuda_set_capability(int major, int minor);
void fake_cuda_set_version(int version);

/* Thread blocks of the latest launch that was done, and bytes of device memory that are in use. */
unsigned fake_cuda_grid(void);
unsigned long long fake_cuda_memory(void);

/* The image that was loaded last. */
const char *fake_cuda_image(void);

#endif
