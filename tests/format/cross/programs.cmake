# The test programs that meet the kernels. They are run once for each kernel set of this machine (label kernels), and by
# an emulator with the sets that its processor has (LMC_TEST_KERNELS of the toolchain file, the best one first).

# Under an emulator, those that compare all sets by themselves need no other set than the best.
set(LMC_KERNEL_PROGRAMS
  test_kernels test_kernels_delta test_kernels_offsets test_kernels_rans test_block test_base_nbytes test_corrupt
  test_delta_base test_delta_changes test_delta_damage test_delta_forged test_delta_pieces test_delta_round_trip
  test_delta_stage test_delta_values test_frame test_frame_args test_frame_pieces test_frame_range test_gap test_golden
  test_plane test_symbols test_rans test_low_memory test_overlap test_reentry test_threads test_wire_sizes)
set(LMC_EMULATED_WITH_EVERY_SET
  test_frame_pieces test_frame_range test_gap test_golden test_plane test_symbols)

# Tests that take seconds each under an emulator, for what other tests here touch, too.
set(LMC_NOT_EMULATED_test_block test_blocks)
set(LMC_NOT_EMULATED_test_corrupt test_every_bit)
set(LMC_NOT_EMULATED_test_delta_base test_overhead)
set(LMC_NOT_EMULATED_test_delta_damage test_every_bit)
set(LMC_NOT_EMULATED_test_delta_round_trip
  test_distances test_shares test_kinds test_identical test_block_sizes test_large)
set(LMC_NOT_EMULATED_test_delta_stage test_any_plan)
set(LMC_NOT_EMULATED_test_delta_values test_all_patterns_of_16_bits)
set(LMC_NOT_EMULATED_test_frame test_simple_contents_get_small test_noise_is_never_much_larger)

# Thousands of calls that write files, which is slow under Wine.
set(LMC_NOT_ON_WINDOWS_test_st_allocator test_one_fails test_all_fail_from_one_on test_one_fails_with_threads)

# For another system than this one, all programs are run, the usual way.
function(lmc_add_emulated_test name source)
  if(WIN32)
    lmc_tests_without(arguments ${source} ${LMC_NOT_ON_WINDOWS_${name}})
    add_test(NAME ${name} COMMAND ${name} ${arguments} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES LABELS unit)
    return()
  elseif(NOT name IN_LIST LMC_KERNEL_PROGRAMS)
    return()
  endif()
  lmc_tests_without(arguments ${source} ${LMC_NOT_EMULATED_${name}})
  list(GET LMC_TEST_KERNELS 0 best)
  foreach(kernels IN LISTS LMC_TEST_KERNELS)
    if(kernels STREQUAL best OR name IN_LIST LMC_EMULATED_WITH_EVERY_SET)
      add_test(NAME ${name}_${kernels} COMMAND ${name} ${arguments} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
      set_tests_properties(${name}_${kernels} PROPERTIES LABELS unit ENVIRONMENT LMC_KERNELS=${kernels})
    endif()
  endforeach()
endfunction()

# The programs use the set at all: PROGRAM prints its name.
function(lmc_add_kernels_tests program)
  foreach(kernels IN LISTS LMC_TEST_KERNELS)
    add_test(NAME kernels_${kernels} COMMAND ${program})
    set_tests_properties(kernels_${kernels} PROPERTIES LABELS unit ENVIRONMENT LMC_KERNELS=${kernels}
      PASS_REGULAR_EXPRESSION "^${kernels}\n$")
  endforeach()
endfunction()
