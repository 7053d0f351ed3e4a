# Where `cmake --install` puts things, below the prefix:
#   bin/                 lockstep
#   libexec/lockstep/    programs that it starts, and the library that it preloads
#   lib/                 libraries, CMake's and pkg-config's files
#   lib/lockstep/        engines that are loaded when a program uses them
#   include/lockstep/    public headers
#   share/lockstep/      what the benchmarks read
#   share/               completions and the manual page, where shells and man look
# Programs find each other by paths relative to their own, so an installation can be moved.
include(GNUInstallDirs)
set(LOCKSTEP_LIBEXEC_FOLDER ${CMAKE_INSTALL_LIBEXECDIR}/lockstep)
set(LOCKSTEP_ENGINE_FOLDER ${CMAKE_INSTALL_LIBDIR}/lockstep)
set(LOCKSTEP_SHARE_FOLDER ${CMAKE_INSTALL_DATADIR}/lockstep)

# lockstep_relative_folder(result from to): the path from one installed folder to another.
function(lockstep_relative_folder result from to)
  file(RELATIVE_PATH path /prefix/${from} /prefix/${to})
  string(REGEX REPLACE "/$" "" path "${path}")
  set(${result} ${path} PARENT_SCOPE)
endfunction()

foreach(folder CMAKE_INSTALL_BINDIR CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBEXECDIR CMAKE_INSTALL_DATADIR)
  if(IS_ABSOLUTE "${${folder}}")
    message(FATAL_ERROR "${folder} is ${${folder}}: give it relative to CMAKE_INSTALL_PREFIX, so that an installation can be moved.")
  endif()
endforeach()
lockstep_relative_folder(LOCKSTEP_LIBEXEC_FROM_BIN ${CMAKE_INSTALL_BINDIR} ${LOCKSTEP_LIBEXEC_FOLDER})
lockstep_relative_folder(LOCKSTEP_BIN_FROM_LIBEXEC ${LOCKSTEP_LIBEXEC_FOLDER} ${CMAKE_INSTALL_BINDIR})
lockstep_relative_folder(LOCKSTEP_SHARE_FROM_LIBEXEC ${LOCKSTEP_LIBEXEC_FOLDER} ${LOCKSTEP_SHARE_FOLDER})
