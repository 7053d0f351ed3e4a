# Imports a LibTorch that was built with CUDA. Its own CMake files ask for the whole CUDA toolkit, compiler included;
# this project compiles no CUDA source, so libraries and headers are enough.
#   LOCKSTEP_CUDA_INCLUDE   the folder of cuda_runtime.h
#   LOCKSTEP_CUDA_CRT_INCLUDE   the folder above crt/host_defines.h, which cuda_runtime.h includes
#   LOCKSTEP_CUDART         libcudart
# If a library is missing that libtorch_cuda loads, it is left out, for no program that is linked with it could start.
# Sets TORCH_INCLUDE_DIRS, TORCH_LIBRARIES, TORCH_CXX_FLAGS and Torch_VERSION as find_package(Torch) does, and
# LOCKSTEP_TORCH_WITHOUT_CUDA to the reason if CUDA is left out.
function(lockstep_import_cuda_torch prefix)
  file(READ ${prefix}/share/cmake/Torch/TorchConfig.cmake config)
  lockstep_torch_version(version ${prefix}/share/cmake/Torch)
  if(config MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
    message(FATAL_ERROR "LibTorch ${version} in ${prefix} has the C++ library's old ABI, which the system's libraries do "
                        "not have. Take PyTorch 2.7 or later from PyPI, or a LibTorch with \"cxx11 ABI\".")
  endif()
  # Which C++ its headers need, as one of its files says.
  file(READ ${prefix}/share/cmake/Caffe2/Caffe2Targets.cmake targets)
  set(standard 17)
  if("${config}${targets}" MATCHES "(CXX_STANDARD |cxx_std_)20")
    set(standard 20)
  endif()

  # Beside the wheel's torch/ lies nvidia/ with the packages that it needs: a folder for each of CUDA 12's packages, one,
  # cu13, for most of CUDA 13's.
  file(GLOB folders ${prefix}/../nvidia/*/include ${prefix}/../nvidia/*/lib)
  set(toolkits ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} $ENV{CUDA_HOME} /usr/local/cuda)
  find_path(LOCKSTEP_CUDA_INCLUDE cuda_runtime.h PATHS ${folders} NO_DEFAULT_PATH)
  find_path(LOCKSTEP_CUDA_CRT_INCLUDE crt/host_defines.h PATHS ${LOCKSTEP_CUDA_INCLUDE} ${folders} NO_DEFAULT_PATH)
  if(NOT LOCKSTEP_CUDA_CRT_INCLUDE)
    # PyTorch does not ask for the package with the headers under crt/. A toolkit has both, of the same version.
    find_path(toolkit_include crt/host_defines.h PATHS ${toolkits} PATH_SUFFIXES include NO_CACHE NO_DEFAULT_PATH)
    find_path(toolkit_include crt/host_defines.h NO_CACHE)
    if(toolkit_include AND EXISTS ${toolkit_include}/cuda_runtime.h)
      set(LOCKSTEP_CUDA_INCLUDE ${toolkit_include} CACHE PATH "" FORCE)
      set(LOCKSTEP_CUDA_CRT_INCLUDE ${toolkit_include} CACHE PATH "" FORCE)
    endif()
  endif()
  find_path(LOCKSTEP_CUDA_INCLUDE cuda_runtime.h PATHS ${toolkits} PATH_SUFFIXES include NO_DEFAULT_PATH)
  find_path(LOCKSTEP_CUDA_INCLUDE cuda_runtime.h)
  find_file(LOCKSTEP_CUDART NAMES libcudart.so libcudart.so.13 libcudart.so.12 libcudart.so.11.0
            PATHS ${folders} ${LOCKSTEP_CUDA_INCLUDE}/../lib64 ${LOCKSTEP_CUDA_INCLUDE}/../lib ${prefix}/lib
                  /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} NO_DEFAULT_PATH)
  mark_as_advanced(LOCKSTEP_CUDA_INCLUDE LOCKSTEP_CUDA_CRT_INCLUDE LOCKSTEP_CUDART)

  # Some of CUDA may be there, of a toolkit, and some not.
  execute_process(COMMAND ldd ${prefix}/lib/libtorch_cuda.so OUTPUT_VARIABLE loaded ERROR_QUIET)
  string(REGEX MATCHALL "[^ \t\n]+ => not found" missing "${loaded}")
  set(names c10 torch_cpu torch)
  if(missing)
    list(REMOVE_DUPLICATES missing)
    list(JOIN missing ", " missing)
    string(REPLACE " => not found" "" missing "${missing}")
    set(LOCKSTEP_TORCH_WITHOUT_CUDA ", without its CUDA: not found: ${missing}" PARENT_SCOPE)
  else()
    list(APPEND names c10_cuda torch_cuda)
  endif()
  foreach(name IN LISTS names)
    if(NOT TARGET ${name})
      add_library(${name} SHARED IMPORTED GLOBAL)
      set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${prefix}/lib/lib${name}.so)
    endif()
  endforeach()
  # The OpenMP that it brings is that of the whole program.
  if(EXISTS ${prefix}/lib/libgomp.so.1)
    set(OpenMP_gomp_LIBRARY ${prefix}/lib/libgomp.so.1 CACHE FILEPATH "OpenMP's runtime, as LibTorch has it")
  endif()
  set(libraries torch_cpu c10)
  if(TARGET torch_cuda)
    # No code of ours names libtorch_cuda; it registers CUDA where it is loaded.
    set(libraries torch_cpu -Wl,--no-as-needed,${prefix}/lib/libtorch_cuda.so,--as-needed torch_cuda c10_cuda c10)
  endif()
  set(TORCH_INCLUDE_DIRS ${prefix}/include ${prefix}/include/torch/csrc/api/include PARENT_SCOPE)
  set(TORCH_LIBRARIES ${libraries} PARENT_SCOPE)
  set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1" PARENT_SCOPE)
  set(Torch_VERSION ${version} PARENT_SCOPE)
  set(LOCKSTEP_TORCH_STANDARD ${standard} PARENT_SCOPE)
endfunction()
