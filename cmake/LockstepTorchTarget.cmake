# What is done with a LibTorch that was found, here and in programs that find an installed Lockstep.

# lockstep_torch_version(result folder): the version that TorchConfigVersion.cmake in `folder` states.
function(lockstep_torch_version result folder)
  file(STRINGS ${folder}/TorchConfigVersion.cmake line REGEX "set\\(PACKAGE_VERSION " LIMIT_COUNT 1)
  string(REGEX REPLACE ".*\"([^\"]*)\".*" "\\1" version "${line}")
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

# Keeps find_package(Torch) from warning, on Debian 13, that the package has no static kineto: libtorch_cpu does not need it.
# TorchConfig.cmake links what the variable names; c10 is linked anyway.
macro(lockstep_do_without_kineto)
  find_library(kineto_LIBRARY kineto)
  mark_as_advanced(kineto_LIBRARY)
  if(NOT kineto_LIBRARY)
    set(kineto_LIBRARY c10)
  endif()
endmacro()

# lockstep_describe_torch(target is_system): gives an INTERFACE library what find_package(Torch) found.
function(lockstep_describe_torch target is_system)
  # SYSTEM: LibTorch's headers do not compile without warnings.
  target_include_directories(${target} SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  target_link_libraries(${target} INTERFACE ${TORCH_LIBRARIES})
  separate_arguments(flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
  target_compile_options(${target} INTERFACE ${flags})
  if(LOCKSTEP_TORCH_STANDARD)
    target_compile_features(${target} INTERFACE cxx_std_${LOCKSTEP_TORCH_STANDARD})
  endif()
  # A wheel's libtorch_cuda finds NVIDIA's libraries beside itself when it is loaded. The linker would look for them in
  # the system, and refuse a system whose NCCL is older.
  if(NOT is_system)
    target_link_options(${target} INTERFACE -Wl,--allow-shlib-undefined)
  endif()
endfunction()

# lockstep_find_torch_config(result folder): the folder of TorchConfig.cmake that a program chose with Torch_DIR, Torch_ROOT
# or CMAKE_PREFIX_PATH; else `folder`; else one of the system's; empty if there is none.
function(lockstep_find_torch_config result folder)
  set(prefixes ${Torch_ROOT} $ENV{Torch_ROOT} ${CMAKE_PREFIX_PATH})
  string(REPLACE ":" ";" from_environment "$ENV{CMAKE_PREFIX_PATH}")
  list(APPEND prefixes ${from_environment})
  lockstep_torch_folders(chosen "${prefixes}")
  lockstep_torch_folders(others "${CMAKE_SYSTEM_PREFIX_PATH}")
  foreach(candidate IN ITEMS ${Torch_DIR} ${chosen} ${folder} ${others})
    if(EXISTS ${candidate}/TorchConfig.cmake)
      set(${result} ${candidate} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()

# Where TorchConfig.cmake may lie below each of `prefixes`. torch.utils.cmake_prefix_path is itself a folder share/cmake.
function(lockstep_torch_folders result prefixes)
  set(folders "")
  foreach(prefix IN LISTS prefixes)
    list(APPEND folders ${prefix} ${prefix}/Torch ${prefix}/share/cmake/Torch ${prefix}/lib/cmake/Torch
         ${prefix}/lib/${CMAKE_LIBRARY_ARCHITECTURE}/cmake/Torch)
  endforeach()
  set(${result} "${folders}" PARENT_SCOPE)
endfunction()

# lockstep_torch_library(result): the path of libtorch_cpu, empty if its target does not say.
function(lockstep_torch_library result)
  get_target_property(library torch_cpu IMPORTED_LOCATION)
  get_target_property(configurations torch_cpu IMPORTED_CONFIGURATIONS)
  foreach(configuration IN LISTS configurations)
    if(NOT library)
      get_target_property(library torch_cpu IMPORTED_LOCATION_${configuration})
    endif()
  endforeach()
  if(NOT library)
    set(library "")
  endif()
  set(${result} "${library}" PARENT_SCOPE)
endfunction()
