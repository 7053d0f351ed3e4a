# Uses ccache where it is installed. Precompiled headers need both lines: GCC must list them in its preprocessed output,
# and ccache must not compare time stamps and macros that a precompiled header carries.
find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${LOCKSTEP_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(lockstep_flags INTERFACE -fpch-preprocess)
  elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(lockstep_flags INTERFACE -Xclang -fno-pch-timestamp)
  endif()
endif()
