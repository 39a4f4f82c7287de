# What `cmake --install` puts in place: headers, libraries, the command, a CMake package and pkg-config
# files. The package may be moved as a whole: nothing in it holds the prefix.

# lmc_set_run_path(TARGET...): what is installed has its final run path in the build tree, too. Otherwise CMake changes
# the path at installation, and until then fills it up with empty entries: the loader takes these for the current
# directory, and loads what lies there.
function(lmc_set_run_path)
  set_target_properties(${ARGN} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
endfunction()

# lmc_install_library(TARGET...): libraries that belong to the CMake package. In the build tree the shared ones are in
# one folder, as they are when installed, so that each finds the others beside it.
function(lmc_install_library)
  lmc_set_run_path(${ARGN})
  set_target_properties(${ARGN} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  install(TARGETS ${ARGN} EXPORT lmcTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endfunction()

# lmc_install_pkgconfig(NAME): NAME.pc from cmake/NAME.pc.in.
function(lmc_install_pkgconfig name)
  file(RELATIVE_PATH LMC_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" LMC_PC_PREFIX "${LMC_PC_PREFIX}")
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

# lmc_install_package(): the CMake package `lmc`, once all of its libraries are known.
function(lmc_install_package)
  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lmc)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/lmcConfig.cmake.in
    ${PROJECT_BINARY_DIR}/lmcConfig.cmake INSTALL_DESTINATION ${package_dir})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/lmcConfigVersion.cmake
    COMPATIBILITY SameMajorVersion)
  install(EXPORT lmcTargets NAMESPACE lmc:: DESTINATION ${package_dir})
  install(FILES ${PROJECT_BINARY_DIR}/lmcConfig.cmake ${PROJECT_BINARY_DIR}/lmcConfigVersion.cmake
    DESTINATION ${package_dir})
endfunction()
