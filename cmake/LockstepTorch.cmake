# Defines lockstep_torch, the LibTorch that everything links.
#   LOCKSTEP_TORCH=system   the distribution's libtorch-dev
#   LOCKSTEP_TORCH=python   the torch of the Python that is first on the PATH
#   LOCKSTEP_TORCH=PREFIX   an unpacked LibTorch
include(LockstepTorchTarget)
set(lockstep_torch_folder "")
if(LOCKSTEP_TORCH STREQUAL "python")
  # Found and not imported: PyTorch imports packages that C++ programs do not need.
  execute_process(COMMAND python3 -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
                  OUTPUT_VARIABLE lockstep_torch_folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "LOCKSTEP_TORCH=python, but the python3 that is first on the PATH has no torch. Activate the "
                        "environment that has it.")
  endif()
elseif(NOT LOCKSTEP_TORCH STREQUAL "system")
  get_filename_component(lockstep_torch_folder ${LOCKSTEP_TORCH} ABSOLUTE BASE_DIR ${CMAKE_SOURCE_DIR})
endif()
if(NOT LOCKSTEP_TORCH STREQUAL "system")
  # CMake would find the system's LibTorch instead, and say nothing.
  if(NOT EXISTS ${lockstep_torch_folder}/share/cmake/Torch/TorchConfig.cmake)
    message(FATAL_ERROR "LOCKSTEP_TORCH=${LOCKSTEP_TORCH}, but ${lockstep_torch_folder}/share/cmake/Torch/TorchConfig.cmake is "
                        "not there. Give the folder of an unpacked LibTorch or of a wheel's torch, which holds include, lib "
                        "and share; or python, or system.")
  endif()
  list(PREPEND CMAKE_PREFIX_PATH ${lockstep_torch_folder})
endif()
# What was found of one LibTorch would be mixed with another.
if(DEFINED LOCKSTEP_TORCH_FOLDER AND NOT LOCKSTEP_TORCH_FOLDER STREQUAL "${LOCKSTEP_TORCH}:${lockstep_torch_folder}")
  message(FATAL_ERROR "This build folder was configured for another LibTorch (${LOCKSTEP_TORCH_FOLDER}) than "
                      "${LOCKSTEP_TORCH}:${lockstep_torch_folder}. Take another folder, or delete this one.")
endif()
set(LOCKSTEP_TORCH_FOLDER "${LOCKSTEP_TORCH}:${lockstep_torch_folder}" CACHE INTERNAL "")
if(EXISTS ${lockstep_torch_folder}/lib/libtorch_cuda.so)
  include(LockstepTorchCuda)
  lockstep_import_cuda_torch(${lockstep_torch_folder})
  set(LOCKSTEP_TORCH_CONFIG ${lockstep_torch_folder}/share/cmake/Torch)
else()
  lockstep_do_without_kineto()
  find_package(Torch REQUIRED)
  set(LOCKSTEP_TORCH_CONFIG ${Torch_DIR})
endif()

if(LOCKSTEP_TORCH STREQUAL "system")
  set(lockstep_torch_is_system TRUE)
else()
  set(lockstep_torch_is_system FALSE)
endif()
add_library(lockstep_torch INTERFACE)
lockstep_describe_torch(lockstep_torch ${lockstep_torch_is_system})

# PyTorch's wheels carry fmt's headers, and of another version than the system's library: then the headers must do alone.
foreach(directory IN LISTS TORCH_INCLUDE_DIRS)
  if(LOCKSTEP_TORCH STREQUAL "system")
    break()
  endif()
  if(EXISTS ${directory}/fmt/format.h)
    target_compile_definitions(lockstep_torch INTERFACE FMT_HEADER_ONLY=1)
  endif()
endforeach()
