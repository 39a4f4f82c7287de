/* Basic.h - CUnit's name for its simplest interface; see CUnit.h. */
#include "CUnit.h"
