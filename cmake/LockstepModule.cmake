# lockstep_module(folder [TORCH] [DEPENDS module...] [LIBRARIES library...] [PRECOMPILE kind])
# One folder under src/lockstep, built as a static library. DEPENDS names modules, LIBRARIES everything else. A folder
# inside another module's, as data/text, is a module of its own (lockstep_data_text), listed above the one around it.
function(lockstep_module folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "PRECOMPILE" "DEPENDS;LIBRARIES")
  lockstep_sources(sources ${folder})
  string(REPLACE "/" "_" name ${folder})
  add_library(lockstep_${name} STATIC ${sources})
  target_include_directories(lockstep_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(lockstep_${name} PRIVATE lockstep_flags PUBLIC ${arg_LIBRARIES})
  string(REPLACE "/" "_" arg_DEPENDS "${arg_DEPENDS}")
  foreach(dep IN LISTS arg_DEPENDS)
    if(NOT TARGET lockstep_${dep})
      message(FATAL_ERROR "${name} lists ${dep}, which is not above it in src/lockstep/CMakeLists.txt")
    endif()
    target_link_libraries(lockstep_${name} PUBLIC lockstep_${dep})
  endforeach()
  if(arg_TORCH)
    target_link_libraries(lockstep_${name} PUBLIC lockstep_torch lockstep_start)
    # An executable starts as src/lockstep/start/preinit.cpp says; a shared library may hold no such function.
    target_link_options(lockstep_${name} INTERFACE
                        $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:LINKER:-u,lockstep_preinit>)
    if(NOT arg_PRECOMPILE)
      set(arg_PRECOMPILE TENSOR)
    endif()
    lockstep_precompile(lockstep_${name} ${arg_PRECOMPILE})
  endif()
endfunction()

# The .cpp files of a folder, but for those of folders inside it that this was called for before.
function(lockstep_sources result folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
  get_property(known DIRECTORY PROPERTY LOCKSTEP_FOLDERS)
  foreach(inner IN LISTS known)
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${inner}/")
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY LOCKSTEP_FOLDERS ${folder})
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# Three precompiled headers, each built once and shared: TENSOR for code that sees only tensors, MODULE for code that
# sees modules (which it more than halves), NN for code that sees all of LibTorch. A translation unit that includes
# <torch/torch.h> takes 10 s without, 3 to 4 s with.
function(lockstep_precompile target kind)
  string(TOLOWER ${kind} suffix)
  if(NOT TARGET lockstep_pch_${suffix})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/pch_${suffix}.cpp CONTENT "// Carries a precompiled header; holds nothing.\n")
    add_library(lockstep_pch_${suffix} OBJECT ${PROJECT_BINARY_DIR}/pch_${suffix}.cpp)
    target_link_libraries(lockstep_pch_${suffix} PRIVATE lockstep_flags lockstep_torch)
    if(kind STREQUAL "NN")
      target_precompile_headers(lockstep_pch_${suffix} PRIVATE <torch/torch.h>)
    elseif(kind STREQUAL "MODULE")
      target_precompile_headers(lockstep_pch_${suffix} PRIVATE <torch/nn/module.h> <ATen/TensorOperators.h>
                                <memory> <string> <vector> <functional>)
    else()
      target_precompile_headers(lockstep_pch_${suffix} PRIVATE
                                <ATen/core/Tensor.h> <memory> <string> <vector> <functional>)
    endif()
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")  # -fPIE would not match the -fPIC that the header was precompiled with
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM lockstep_pch_${suffix})
endfunction()
