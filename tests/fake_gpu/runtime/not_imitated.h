#pragma once

#include <cstdio>

/// Defines a function that a library asks for and that is not imitated: it says so, and returns `code`. Without the
/// header of CUDA or NCCL, because its parameters do not matter.
#define REFUSED_CALL(name, code)                                    \
  extern "C" int name() {                                           \
    std::fprintf(stderr, "[fake GPU] %s is not imitated\n", #name); \
    return code;                                                    \
  }
