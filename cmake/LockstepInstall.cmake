# `cmake --install`, in four components:
#   library      shared libraries, and engines that are loaded when a program uses them
#   development  headers, static libraries, and the files with which CMake and pkg-config find them
#   command      lockstep, what it starts, and the data that the project ships
#   benchmarks   `lockstep bench` and `lockstep plan`, what they start and read
# and cpack, which makes packages of them (LockstepPackages.cmake).
include(CMakePackageConfigHelpers)
include(LockstepThirdParty)
get_property(lockstep_modules GLOBAL PROPERTY LOCKSTEP_MODULES)
get_property(lockstep_engine_modules GLOBAL PROPERTY LOCKSTEP_ENGINE_MODULES)

# lockstep_set_rpath(target folder): lets an installed file in `folder` find libraries in the same prefix, and those that
# it was linked with outside of the system's folders. Debian's packages, with the prefix /usr, may name no such folder.
function(lockstep_set_rpath target folder)
  lockstep_relative_folder(libraries ${folder} ${CMAKE_INSTALL_LIBDIR})
  lockstep_relative_folder(engines ${folder} ${LOCKSTEP_ENGINE_FOLDER})
  set(others ON)
  set(folders "$ORIGIN/${libraries}" "$ORIGIN/${engines}")
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set(others OFF)
  elseif(NOT LOCKSTEP_TORCH STREQUAL "system")
    lockstep_torch_library(torch)
    cmake_path(GET torch PARENT_PATH torch)
    list(APPEND folders ${torch})  # CMake leaves it out if it lies in this tree, as build/wheel does
  endif()
  set_target_properties(${target} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ${others} INSTALL_RPATH "${folders}")
endfunction()

# ---- library and development
list(TRANSFORM lockstep_modules PREPEND lockstep_ OUTPUT_VARIABLE lockstep_libraries)
foreach(library IN LISTS lockstep_libraries)
  lockstep_set_rpath(${library} ${CMAKE_INSTALL_LIBDIR})
endforeach()
install(TARGETS ${lockstep_libraries} lockstep_preinit lockstep_all EXPORT LockstepTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(lockstep_engine_modules)
  foreach(module IN LISTS lockstep_engine_modules)
    lockstep_set_rpath(${module} ${LOCKSTEP_ENGINE_FOLDER})
  endforeach()
  install(TARGETS ${lockstep_engine_modules} LIBRARY DESTINATION ${LOCKSTEP_ENGINE_FOLDER} COMPONENT library)
  # A program that is linked with a static lockstep_comm finds them wherever the program itself is.
  target_link_options(lockstep_comm INTERFACE
                      $<INSTALL_INTERFACE:LINKER:-rpath,$<INSTALL_PREFIX>/${LOCKSTEP_ENGINE_FOLDER}>)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)

set(lockstep_config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep)
install(EXPORT LockstepTargets NAMESPACE Lockstep:: DESTINATION ${lockstep_config_folder} COMPONENT development)
lockstep_component_table(LOCKSTEP_COMPONENT_TABLE)
configure_file(${PROJECT_SOURCE_DIR}/cmake/LockstepConfig.cmake.in ${PROJECT_BINARY_DIR}/LockstepConfig.cmake @ONLY)
# While the first number is 0, a new second number may change names.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/LockstepConfig.cmake ${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/LockstepTorchTarget.cmake ${PROJECT_SOURCE_DIR}/cmake/LockstepTorchCuda.cmake
        DESTINATION ${lockstep_config_folder} COMPONENT development)
include(LockstepPkgConfig)

# ---- command
lockstep_set_rpath(lockstep ${CMAKE_INSTALL_BINDIR})
install(TARGETS lockstep RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
foreach(program lockstep-torch lockstep-chaos)
  lockstep_set_rpath(${program} ${LOCKSTEP_LIBEXEC_FOLDER})
  install(TARGETS ${program} RUNTIME DESTINATION ${LOCKSTEP_LIBEXEC_FOLDER} COMPONENT command)
endforeach()
install(TARGETS lockstep_spare LIBRARY DESTINATION ${LOCKSTEP_LIBEXEC_FOLDER} COMPONENT command)
# What the README's commands read.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/data DESTINATION ${LOCKSTEP_SHARE_FOLDER} COMPONENT command
        PATTERN "__pycache__" EXCLUDE PATTERN "*.py" EXCLUDE)

# ---- benchmarks
foreach(program bench bench-worker all-reduce-worker)
  lockstep_set_rpath(lockstep-${program} ${LOCKSTEP_LIBEXEC_FOLDER})
  install(TARGETS lockstep-${program} RUNTIME DESTINATION ${LOCKSTEP_LIBEXEC_FOLDER} COMPONENT benchmarks)
endforeach()
foreach(worker step plan restart strangers trainer wrapper)  # names of lockstep-bench-worker
  install(FILES ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/lockstep-${worker}-worker DESTINATION ${LOCKSTEP_LIBEXEC_FOLDER}
          COMPONENT benchmarks)
endforeach()
foreach(peer gloo mpi)
  if(TARGET lockstep-all-reduce-${peer})
    install(TARGETS lockstep-all-reduce-${peer} RUNTIME DESTINATION ${LOCKSTEP_LIBEXEC_FOLDER} COMPONENT benchmarks)
  endif()
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/bench/peers ${PROJECT_SOURCE_DIR}/bench/wrappers
        DESTINATION ${LOCKSTEP_SHARE_FOLDER}/bench COMPONENT benchmarks
        FILES_MATCHING PATTERN "*.py" PATTERN "wrappers/*.cpp" PATTERN "__pycache__" EXCLUDE)

# ---- completions and manual page
# What shells complete behind `lockstep`, and its manual page. The command writes them from the flags of its programs, so
# they are made when those are built, and not where this machine cannot run them.
if(NOT CMAKE_CROSSCOMPILING)
  set(lockstep_completions ${PROJECT_BINARY_DIR}/completions)
  set(lockstep_scripts ${lockstep_completions}/lockstep ${lockstep_completions}/_lockstep ${lockstep_completions}/lockstep.fish
      ${lockstep_completions}/lockstep.1)
  find_program(LOCKSTEP_GZIP gzip)  # Debian wants manual pages compressed
  set(lockstep_manual ${lockstep_completions}/lockstep.1)
  if(LOCKSTEP_GZIP)
    set(compress COMMAND ${LOCKSTEP_GZIP} -9 -n -k -f ${lockstep_manual})
    string(APPEND lockstep_manual .gz)
  endif()
  add_custom_command(
    OUTPUT ${lockstep_scripts}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${lockstep_completions}
    COMMAND lockstep completions --output-dir ${lockstep_completions}
    ${compress}
    DEPENDS lockstep lockstep-torch lockstep-bench lockstep-chaos
    COMMENT "Writing completions and the manual page" VERBATIM)
  add_custom_target(lockstep_completions ALL DEPENDS ${lockstep_scripts})

  # Where shells look of themselves. OPTIONAL: whoever builds some of the programs alone has none.
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set(lockstep_zsh_folder ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
  else()
    set(lockstep_zsh_folder ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  endif()
  install(FILES ${lockstep_completions}/lockstep DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
          COMPONENT command OPTIONAL)
  install(FILES ${lockstep_completions}/_lockstep DESTINATION ${lockstep_zsh_folder} COMPONENT command OPTIONAL)
  install(FILES ${lockstep_completions}/lockstep.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
          COMPONENT command OPTIONAL)
  install(FILES ${lockstep_manual} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command OPTIONAL)
endif()

include(LockstepPackages)
