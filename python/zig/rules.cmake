# zig makes no bundle of macOS. A module is a shared library there, which a program loads all the same.
if(APPLE)
  set(CMAKE_C_CREATE_SHARED_MODULE "${CMAKE_C_CREATE_SHARED_LIBRARY}")
endif()
