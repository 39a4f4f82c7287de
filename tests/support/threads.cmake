# The programs that the thread sanitizer looks at (label threads), and which of their tests.

# These tests start no thread, and take long with the thread sanitizer.
set(LMC_NO_THREADS_test_delta_base
  test_every_bit test_moved_base test_no_base test_calls_without_a_base test_ranges_read_no_more test_ranges
  test_ignored_by_static_frames test_base_without_help test_overhead test_overhead_of_wrong_samples
  test_plan_looks_at_few_places)
set(LMC_NO_THREADS_test_delta_round_trip
  test_distances test_shares test_kinds test_one_change test_identical test_lengths test_short_and_equal test_tails
  test_block_sizes test_large)
set(LMC_NO_THREADS_test_frame
  test_every_small_length test_no_content test_lengths_about_blocks test_random_lengths test_every_content
  test_special_floats test_every_16_bit_value test_simple_contents_get_small test_dominated_bytes
  test_noise_is_never_much_larger test_block_sizes test_unaligned_buffers test_history_does_not_matter
  test_lengths_of_rows test_matrices_with_bases test_mixture_is_not_taken_for_noise)

# 1 in OUTPUT if a program starts threads, or has the libraries start some.
function(lmc_starts_threads output source)
  file(STRINGS ${source} lines REGEX "pthread_create|thread_count")
  if(lines)
    set(${output} 1 PARENT_SCOPE)
  else()
    set(${output} 0 PARENT_SCOPE)
  endif()
endfunction()

# In OUTPUT: the arguments of a program that pick all of its tests but those named; none if none is named.
function(lmc_tests_without output source)
  set(wanted)
  if(ARGN)
    file(STRINGS ${source} lines REGEX "LMC_TEST\\([a-z]")
    string(REGEX MATCHALL "LMC_TEST\\([A-Za-z0-9_]+" wanted "${lines}")
    list(TRANSFORM wanted REPLACE "LMC_TEST\\(" "")
    foreach(left_out IN LISTS ARGN)
      if(NOT left_out IN_LIST wanted)
        message(FATAL_ERROR "${source} has no test ${left_out}")
      endif()
    endforeach()
    list(REMOVE_ITEM wanted ${ARGN})
  endif()
  set(${output} ${wanted} PARENT_SCOPE)
endfunction()
