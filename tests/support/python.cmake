# Tests in Python and in shell that need nothing from a package index. Their labels are their names, and `short` for
# those that `sh tests/run.sh` runs. Each starts as many processes as there are cores (LMC_JOBS says otherwise), so none
# runs beside another test.

# LMC_PYTHON: a Python with pytest and pytest-xdist, that of the path or Debian's.
foreach(candidate IN ITEMS python3 /usr/bin/python3)
  if(NOT LMC_PYTHON)
    execute_process(COMMAND ${candidate} -c "import pytest, xdist, sys; print(sys.executable)"
      OUTPUT_VARIABLE found ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(found)
      set(LMC_PYTHON ${found} CACHE FILEPATH "A Python with pytest and pytest-xdist")
    endif()
  endif()
endforeach()
if(NOT LMC_PYTHON)
  message(STATUS "There is no pytest with pytest-xdist (Debian: python3-pytest python3-pytest-xdist): "
    "ctest has no tests in Python")
endif()
set(debian_python /usr/bin/python3) # the one that has Debian's h5py

function(lmc_add_script name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS ${name} RUN_SERIAL TRUE TIMEOUT 3600)
  if(name MATCHES "^(cli|reference|checks)$" AND NOT LMC_SANITIZE)
    set_property(TEST ${name} APPEND PROPERTY LABELS short)
  endif()
endfunction()

# The tests of a folder, by the name of LABEL; further arguments are for pytest.
function(lmc_add_pytest label folder)
  if(LMC_PYTHON)
    lmc_add_script(${label} ${LMC_PYTHON} -m pytest -q -n auto --build=${PROJECT_BINARY_DIR} ${ARGN}
      ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
  endif()
endfunction()

# 1 in OUTPUT if a Python has these modules.
function(lmc_has_modules output python modules)
  execute_process(COMMAND ${python} -c "import ${modules}" RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(status EQUAL 0)
    set(${output} 1 PARENT_SCOPE)
  else()
    set(${output} 0 PARENT_SCOPE)
    message(STATUS "${python} lacks one of the modules ${modules}: ctest does not have the tests that need it")
  endif()
endfunction()

if(LMC_SANITIZE)
  lmc_add_pytest(cli cli --sample=1 -k "damage or faults or foreign or headers or salvage or races or analyze or get")
  lmc_add_pytest(checks checks -k run_path) # the others look at the source, or at the same files
else()
  lmc_add_pytest(cli cli)
  lmc_add_pytest(checks checks)
  lmc_add_pytest(compilers checks -m slow -k "warnings or windows")
  lmc_add_pytest(benches checks -m slow -k bench_)
  if(TARGET lmc_cuda_emulated)
    lmc_add_pytest(gpu unit/gpu)
  endif()
  if(LMC_PYTHON)
    lmc_has_modules(has_reference ${LMC_PYTHON} xxhash,zstandard)
  endif()
  if(has_reference)
    lmc_add_pytest(reference format/reference --dist loadfile)
  endif()
  lmc_has_modules(has_h5py ${debian_python} h5py)
  if(has_h5py)
    lmc_add_pytest(hdf5 interop/hdf5)
    lmc_add_script(h5examples
      sh ${CMAKE_CURRENT_SOURCE_DIR}/interop/h5examples/run.sh ${PROJECT_BINARY_DIR} ${debian_python})
  endif()
  lmc_add_script(package sh ${CMAKE_CURRENT_SOURCE_DIR}/package/run.sh ${PROJECT_BINARY_DIR})
  lmc_add_script(package_debian sh ${CMAKE_CURRENT_SOURCE_DIR}/package/debian.sh)
  set_property(TEST package_debian PROPERTY LABELS package)
  file(GLOB models ${PROJECT_SOURCE_DIR}/examples/data/*.safetensors)
  lmc_add_script(quickstart sh ${PROJECT_SOURCE_DIR}/examples/quickstart.sh ${models})
endif()
