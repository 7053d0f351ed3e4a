# Adds Gloo to lockstep_comm, linked in or as a module of its own (comm/gloo/gloo_mesh_loader.cpp says why), or leaves the
# gloo engine out where Gloo is not installed.
find_path(LOCKSTEP_GLOO_INCLUDE gloo/transport/tcp/device.h)
find_library(LOCKSTEP_GLOO_LIBRARY gloo)

# Sets `result` to whether LibTorch defines Gloo's names itself, as PyTorch's wheels do and Debian's does not.
function(lockstep_torch_has_gloo result)
  set(${result} FALSE PARENT_SCOPE)
  lockstep_torch_library(library)
  if(NOT library OR NOT CMAKE_NM)
    message(WARNING "Cannot look into libtorch_cpu: the gloo engine is built as a module, to be safe.")
    set(${result} TRUE PARENT_SCOPE)
    return()
  endif()
  file(REAL_PATH "${library}" library)
  if(NOT "${LOCKSTEP_GLOO_TORCH_LOOKED_AT}" STREQUAL "${library}")
    execute_process(COMMAND ${CMAKE_NM} -D --defined-only "${library}" OUTPUT_VARIABLE names ERROR_QUIET)
    string(FIND "${names}" "N4gloo9transport3tcp" found)  # part of every mangled name in gloo::transport::tcp
    set(LOCKSTEP_GLOO_TORCH_LOOKED_AT "${library}" CACHE INTERNAL "")
    set(LOCKSTEP_GLOO_IN_TORCH ${found} CACHE INTERNAL "")
  endif()
  if(NOT LOCKSTEP_GLOO_IN_TORCH EQUAL -1)
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()

set(lockstep_gloo_folder ${PROJECT_SOURCE_DIR}/src/lockstep/comm/gloo)
if(NOT LOCKSTEP_GLOO_INCLUDE OR NOT LOCKSTEP_GLOO_LIBRARY)
  file(GLOB lockstep_gloo_sources ${lockstep_gloo_folder}/*.cpp)
  lockstep_remove_sources(lockstep_comm ${lockstep_gloo_sources})
  lockstep_report("engine gloo" "no (libgloo-dev is not installed)")
  return()
endif()

target_compile_definitions(lockstep_comm PRIVATE LOCKSTEP_HAS_GLOO=1)
lockstep_torch_has_gloo(lockstep_gloo_as_module)
if(NOT lockstep_gloo_as_module)
  target_include_directories(lockstep_comm SYSTEM PRIVATE ${LOCKSTEP_GLOO_INCLUDE})
  lockstep_link(comm BUILT ${LOCKSTEP_GLOO_LIBRARY} INSTALLED ${LOCKSTEP_GLOO_LIBRARY})
  lockstep_report("engine gloo" "${LOCKSTEP_GLOO_LIBRARY}, linked")
  return()
endif()

set(lockstep_gloo_sources gloo_mesh.cpp packets.cpp loop_commands.cpp)
list(TRANSFORM lockstep_gloo_sources PREPEND ${lockstep_gloo_folder}/)
lockstep_remove_sources(lockstep_comm ${lockstep_gloo_sources})
add_library(lockstep_gloo MODULE ${lockstep_gloo_sources})
target_include_directories(lockstep_gloo PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_include_directories(lockstep_gloo SYSTEM PRIVATE ${LOCKSTEP_GLOO_INCLUDE})
# Nothing else is linked, so that the module's own scope holds Gloo and the C++ library alone.
target_link_libraries(lockstep_gloo PRIVATE lockstep_flags ${LOCKSTEP_GLOO_LIBRARY} Threads::Threads)
lockstep_engine_module(lockstep_gloo)
target_compile_definitions(lockstep_comm PRIVATE LOCKSTEP_GLOO_MODULE=1
                           LOCKSTEP_GLOO_MODULE_NAME="liblockstep_gloo.so"
                           LOCKSTEP_GLOO_MODULE_BUILT="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/liblockstep_gloo.so")
add_dependencies(lockstep_comm lockstep_gloo)
lockstep_report("engine gloo" "${LOCKSTEP_GLOO_LIBRARY}, as a module: LibTorch carries a Gloo of its own")
