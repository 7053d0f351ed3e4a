# The one place for compiler flags; every target links lockstep_flags PRIVATE.
add_library(lockstep_flags INTERFACE)
target_compile_options(lockstep_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow)
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A batch includes its .cpp files, and GCC takes their anonymous namespaces for a header's.
  target_compile_options(lockstep_flags INTERFACE -Wno-subobject-linkage)
  # GCC collects no garbage below 3 GB: a batch compiles in 9 to 20 % less time, and takes about 10 % more memory.
  target_compile_options(lockstep_flags INTERFACE --param=ggc-min-heapsize=3000000)
endif()
if(LOCKSTEP_SANITIZE)  # plain if(): a generator expression would split "address,undefined" at its comma
  target_compile_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
  # Enough for a stack with lines, at half the time of a build with -O2 -g; and with assertions.
  target_compile_options(lockstep_flags INTERFACE -fno-omit-frame-pointer)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 warns of code in <regex> that it could follow without the checks in between.
    target_compile_options(lockstep_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
# -O2: -O3 builds a third slower, and the loops that matter choose their own vector width.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# lockstep_compile_quickly(level): targets of this folder and those below are compiled at -O<level> in the release
# build, for code that waits, reads flags, prints and compares: code generation is most of a batch's time. A precompiled
# header fits one level alone, so lockstep_precompile() makes another for LOCKSTEP_LEVEL.
macro(lockstep_compile_quickly level)
  set(LOCKSTEP_LEVEL ${level})
  add_compile_options($<$<AND:$<CXX_COMPILER_ID:GNU,Clang>,$<CONFIG:Release>>:-O${level}>)
endmacro()

# Links with a quicker linker if there is one: a build links about a hundred programs. Not for a project around this one,
# which chooses for itself.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_EXE_LINKER_FLAGS MATCHES "-fuse-ld")
  find_program(LOCKSTEP_LINKER NAMES mold ld.mold ld.lld)
  if(LOCKSTEP_LINKER MATCHES "mold")
    add_link_options(-fuse-ld=mold)
  elseif(LOCKSTEP_LINKER)
    add_link_options(-fuse-ld=lld)
  endif()
endif()
