# Uses ccache if it is installed. It takes a file's includes from the compiler's own list (CCACHE_DEPEND): to preprocess
# each file first would add 5 to 10 % to a build that finds nothing in the cache. Precompiled headers need the other
# variable and the option: GCC must list them in its preprocessed output, and ccache must not compare time stamps and
# macros that a precompiled header carries. It does look at the times of included files: one that is edited while it is
# compiled must not be kept with the object of its former content.
find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros ${LOCKSTEP_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(lockstep_flags INTERFACE -fpch-preprocess)
  elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(lockstep_flags INTERFACE -Xclang -fno-pch-timestamp)
  endif()
endif()
