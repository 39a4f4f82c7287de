# What CMake takes for macOS's own: the run path, since it finds no version of macOS on this machine, and a module, for
# zig makes no bundles. A program loads a shared library as well.
if(APPLE)
  set(CMAKE_SHARED_LIBRARY_RUNTIME_C_FLAG "-Wl,-rpath,")
  set(CMAKE_C_CREATE_SHARED_MODULE "${CMAKE_C_CREATE_SHARED_LIBRARY}")
endif()
