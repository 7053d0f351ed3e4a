# Adds Gloo to lockstep_comm, linked in or as a module of its own (comm/gloo/mesh_loader.cpp says why), or leaves the
# gloo engine out where Gloo is not installed.
find_path(LOCKSTEP_GLOO_INCLUDE gloo/transport/tcp/device.h)
find_library(LOCKSTEP_GLOO_LIBRARY gloo)

# Sets `result` to whether LibTorch defines Gloo's names itself, as PyTorch's wheels do and Debian's does not.
function(lockstep_torch_has_gloo result)
  set(${result} FALSE PARENT_SCOPE)
  get_target_property(library torch_cpu IMPORTED_LOCATION)
  get_target_property(configurations torch_cpu IMPORTED_CONFIGURATIONS)
  foreach(configuration IN LISTS configurations)
    if(NOT library)
      get_target_property(library torch_cpu IMPORTED_LOCATION_${configuration})
    endif()
  endforeach()
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

function(lockstep_remove_sources target)
  get_target_property(sources ${target} SOURCES)
  list(REMOVE_ITEM sources ${ARGN})
  set_property(TARGET ${target} PROPERTY SOURCES ${sources})
endfunction()

set(lockstep_gloo_folder ${PROJECT_SOURCE_DIR}/src/lockstep/comm/gloo)
# The loops of a reduction are worth the compiler's full effort.
set_source_files_properties(${lockstep_gloo_folder}/reduction.cpp PROPERTIES
                            COMPILE_OPTIONS -O3 SKIP_PRECOMPILE_HEADERS ON)

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
  target_link_libraries(lockstep_comm PRIVATE ${LOCKSTEP_GLOO_LIBRARY})
  lockstep_report("engine gloo" "${LOCKSTEP_GLOO_LIBRARY}, linked")
  return()
endif()

lockstep_remove_sources(lockstep_comm ${lockstep_gloo_folder}/mesh.cpp)
add_library(lockstep_gloo MODULE ${lockstep_gloo_folder}/mesh.cpp)
target_include_directories(lockstep_gloo PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_include_directories(lockstep_gloo SYSTEM PRIVATE ${LOCKSTEP_GLOO_INCLUDE})
# Nothing else is linked, so that the module's own scope holds Gloo and the C++ library alone.
target_link_libraries(lockstep_gloo PRIVATE lockstep_flags ${LOCKSTEP_GLOO_LIBRARY} Threads::Threads)
set_target_properties(lockstep_gloo PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
target_compile_definitions(lockstep_comm PRIVATE LOCKSTEP_GLOO_MODULE=1
                           LOCKSTEP_GLOO_MODULE_NAME="liblockstep_gloo.so"
                           LOCKSTEP_GLOO_MODULE_BUILT="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/liblockstep_gloo.so")
target_link_libraries(lockstep_comm PRIVATE ${CMAKE_DL_LIBS})
add_dependencies(lockstep_comm lockstep_gloo)
lockstep_report("engine gloo" "${LOCKSTEP_GLOO_LIBRARY}, as a module: LibTorch carries a Gloo of its own")
