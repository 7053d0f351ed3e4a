# lockstep.pc for the whole library, lockstep-parallel.pc and so on for a module and those below it. Paths are relative to
# the files, so an installation can be moved; LibTorch's are those of this machine.
set(lockstep_pc_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
lockstep_relative_folder(lockstep_prefix_from_pc ${lockstep_pc_folder} "")

# lockstep_pkg_config(name description REQUIRES name... LIBS word... CFLAGS word...)
function(lockstep_pkg_config name description)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "REQUIRES;LIBS;CFLAGS")
  list(JOIN arg_REQUIRES " " required)
  list(JOIN arg_LIBS " " libs)
  list(JOIN arg_CFLAGS " " cflags)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/pkgconfig/${name}.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@lockstep_prefix_from_pc@
libdir=${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=${prefix}/@CMAKE_INSTALL_INCLUDEDIR@

Name: @name@
Description: @description@
Version: @PROJECT_VERSION@
Requires: @required@
Libs: @libs@
Cflags: @cflags@
]])
  install(FILES ${PROJECT_BINARY_DIR}/pkgconfig/${name}.pc DESTINATION ${lockstep_pc_folder} COMPONENT development)
endfunction()

# ---- LibTorch
lockstep_torch_library(lockstep_torch_libraries)
cmake_path(GET lockstep_torch_libraries PARENT_PATH lockstep_torch_libraries)
set(lockstep_torch_words -L${lockstep_torch_libraries})
if(NOT lockstep_torch_is_system)
  list(APPEND lockstep_torch_words -Wl,-rpath,${lockstep_torch_libraries} -Wl,--allow-shlib-undefined)
endif()
# No code of ours names libtorch_cuda; it registers CUDA where it is loaded.
if(TARGET torch_cuda)
  list(APPEND lockstep_torch_words -Wl,--no-as-needed -ltorch_cuda -Wl,--as-needed -lc10_cuda)
endif()
# Without libtorch, which is empty, and which needs libtorch_cuda in a package that was built with it.
list(APPEND lockstep_torch_words -ltorch_cpu -lc10)
list(TRANSFORM TORCH_INCLUDE_DIRS PREPEND -I OUTPUT_VARIABLE lockstep_torch_includes)
if(LOCKSTEP_TORCH_STANDARD GREATER 17)  # its headers do not compile with what Lockstep needs
  list(PREPEND lockstep_torch_includes -std=c++${LOCKSTEP_TORCH_STANDARD})
endif()
lockstep_pkg_config(lockstep-torch "LibTorch ${Torch_VERSION}, with which Lockstep was built" LIBS ${lockstep_torch_words}
                    CFLAGS ${lockstep_torch_includes} ${TORCH_CXX_FLAGS})

# ---- modules
lockstep_pkg_config(lockstep-preinit "How a program with Lockstep starts; for programs, not for shared libraries"
                    REQUIRES lockstep-start LIBS -L\${libdir} -Wl,-u,lockstep_preinit -llockstep_preinit)
foreach(module IN LISTS lockstep_modules)
  lockstep_property(depends ${module} LOCKSTEP_DEPENDS)
  lockstep_property(libraries ${module} LOCKSTEP_LIBRARIES)
  lockstep_property(torch ${module} LOCKSTEP_TORCH)
  set(requires "")
  set(words -L\${libdir} -llockstep_${module})
  foreach(library IN LISTS libraries)
    lockstep_third_party(${library} find required more)
    list(APPEND requires ${required})
    list(APPEND words ${more})
  endforeach()
  if(module STREQUAL "comm" AND lockstep_engine_modules)
    list(APPEND words -Wl,-rpath,\${prefix}/${LOCKSTEP_ENGINE_FOLDER})
  endif()
  if(torch)
    list(APPEND requires lockstep-preinit lockstep-torch)
  endif()
  list(TRANSFORM depends PREPEND lockstep-)
  string(REPLACE "_" "-" names "${depends}")
  string(REPLACE "_" "-" name ${module})
  lockstep_pkg_config(lockstep-${name} "Lockstep's module ${module}" REQUIRES ${names} ${requires} LIBS ${words}
                      CFLAGS -I\${includedir})
endforeach()
get_target_property(lockstep_all_modules lockstep_all INTERFACE_LINK_LIBRARIES)
string(REPLACE "_" "-" lockstep_all_modules "${lockstep_all_modules}")
lockstep_pkg_config(lockstep "${PROJECT_DESCRIPTION}" REQUIRES ${lockstep_all_modules})
