# How shared libraries are linked on each system.

# lmc_keep_loaded(TARGET): threads free their contexts when they end, so the code must outlast a dlclose(). Windows and
# macOS have no such option; there lmc_os_stay_loaded() sees to it.
function(lmc_keep_loaded target)
  if(NOT WIN32 AND NOT APPLE)
    target_link_options(${target} PRIVATE -Wl,-z,nodelete)
  endif()
endfunction()

# lmc_export_only(TARGET MAP): the library shows the names that the version script MAP lists as global, and no name of
# the static libraries in it. On Windows those are exported that are declared so (LMC_API).
function(lmc_export_only target map)
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
  if(APPLE)
    file(READ ${map} text)
    string(REGEX REPLACE "^.*global:(.*)local:.*$" "\\1" text "${text}")
    string(REGEX MATCHALL "[A-Za-z_0-9*]+" names "${text}")
    list(TRANSFORM names PREPEND _)
    list(JOIN names "\n" names)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${target}.exports "${names}\n")
    target_link_options(${target} PRIVATE -Wl,-exported_symbols_list,${CMAKE_CURRENT_BINARY_DIR}/${target}.exports)
    if(LMC_ZIG) # which makes libraries of modules: see python/zig/rules.cmake
      target_link_options(${target} PRIVATE -install_name @rpath/$<TARGET_FILE_NAME:${target}>)
    endif()
  elseif(NOT WIN32)
    target_link_options(${target} PRIVATE -Wl,--version-script=${map})
  endif()
endfunction()
