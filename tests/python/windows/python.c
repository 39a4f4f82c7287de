/* python.c - python.exe beside a python3*.dll of Windows: the DLL is in wheels, the program is not. */
#include <windows.h>

#define WIDE_TEXT(text) L##text
#define WIDE(text) WIDE_TEXT(text)

typedef int (*py_main)(int argc, wchar_t **argv);

int wmain(int argc, wchar_t **argv)
{
    const HMODULE python = LoadLibraryW(WIDE(PYTHON_DLL));
    const py_main run = python ? (py_main)(void *)GetProcAddress(python, "Py_Main") : NULL;
    return run ? run(argc, argv) : 127;
}
