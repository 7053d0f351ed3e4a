# lockstep_module(folder [TORCH] [INTERNAL] [DEPENDS module...] [LIBRARIES library...] [HEADERS library...] [PRECOMPILE kind]
#                 [SEES_MODULES])
# One folder under src/lockstep, built as a library: static, or shared with BUILD_SHARED_LIBS. DEPENDS names modules,
# LIBRARIES everything else, but for HEADERS: libraries of headers alone that the module's public headers include.
# INTERNAL: of the command alone, always static, not installed. SEES_MODULES: each of its batches has a file that includes
# LibTorch's modules. A folder inside another module's, as data/text, is a module of its own (lockstep_data_text), listed
# above the one around it.
function(lockstep_module folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH;INTERNAL;SEES_MODULES" "PRECOMPILE" "DEPENDS;LIBRARIES;HEADERS")
  lockstep_sources(sources ${folder})
  string(REPLACE "/" "_" name ${folder})
  set(type "")
  if(arg_INTERNAL)
    set(type STATIC)
  endif()
  add_library(lockstep_${name} ${type} ${sources})
  add_library(Lockstep::${name} ALIAS lockstep_${name})
  # What is exported stands in a script, so no macro says which side of the library's border a header is compiled on.
  set_target_properties(lockstep_${name} PROPERTIES EXPORT_NAME ${name} DEFINE_SYMBOL "" VERSION ${PROJECT_VERSION}
                        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  get_target_property(type lockstep_${name} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    lockstep_hide_others(lockstep_${name})
  endif()
  # A batch of twice as many files takes a quarter less time than two, and 2 GB; the tests' batches take that already.
  if(CMAKE_UNITY_BUILD_BATCH_SIZE GREATER_EQUAL 32)
    set_target_properties(lockstep_${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 64)
  endif()
  target_include_directories(lockstep_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  target_compile_features(lockstep_${name} INTERFACE cxx_std_17)
  target_link_libraries(lockstep_${name} PRIVATE $<BUILD_INTERFACE:lockstep_flags>)
  foreach(library IN LISTS arg_LIBRARIES)
    lockstep_link(${name} BUILT ${library} INSTALLED ${library})
  endforeach()
  target_link_libraries(lockstep_${name} PUBLIC ${arg_HEADERS})
  set_property(TARGET lockstep_${name} APPEND PROPERTY LOCKSTEP_LIBRARIES ${arg_HEADERS})
  string(REPLACE "/" "_" arg_DEPENDS "${arg_DEPENDS}")
  foreach(dep IN LISTS arg_DEPENDS)
    if(NOT TARGET lockstep_${dep})
      message(FATAL_ERROR "${name} lists ${dep}, which is not above it in src/lockstep/CMakeLists.txt")
    endif()
    target_link_libraries(lockstep_${name} PUBLIC lockstep_${dep})
  endforeach()
  set_target_properties(lockstep_${name} PROPERTIES LOCKSTEP_DEPENDS "${arg_DEPENDS}" LOCKSTEP_TORCH "${arg_TORCH}")
  if(NOT arg_INTERNAL)
    set_property(GLOBAL APPEND PROPERTY LOCKSTEP_MODULES ${name})
  endif()
  if(arg_TORCH)
    # The installed target's LibTorch is found by cmake/LockstepConfig.cmake.in.
    target_link_libraries(lockstep_${name} PUBLIC lockstep_start $<BUILD_INTERFACE:lockstep_torch>
                          $<INSTALL_INTERFACE:Lockstep::torch> INTERFACE lockstep_preinit)
    # An executable starts as src/lockstep/start/preinit.cpp says; a shared library may hold no such function.
    target_link_options(lockstep_${name} INTERFACE
                        $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:LINKER:-u,lockstep_preinit>)
    if(CMAKE_UNITY_BUILD AND arg_SEES_MODULES)
      set(arg_PRECOMPILE BATCH)
    elseif(CMAKE_UNITY_BUILD OR NOT arg_PRECOMPILE)
      set(arg_PRECOMPILE TENSOR)
    endif()
    lockstep_precompile(lockstep_${name} ${arg_PRECOMPILE})
  endif()
endfunction()

# lockstep_link(module BUILT library... INSTALLED library...)
# Links libraries from outside: those that a program of this build needs, and those that a program needs that links the
# installed module. The two differ if a target's flags or a path of this machine must not reach other programs. A shared
# library names what it needs itself, so the installed target names nothing then.
function(lockstep_link module)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "BUILT;INSTALLED")
  foreach(library IN LISTS arg_BUILT)
    target_link_libraries(lockstep_${module} PUBLIC $<BUILD_INTERFACE:${library}>)
  endforeach()
  get_target_property(type lockstep_${module} TYPE)
  list(REMOVE_ITEM arg_INSTALLED CLI11::CLI11 nlohmann_json::nlohmann_json)  # headers alone
  if(type STREQUAL "STATIC_LIBRARY")
    foreach(library IN LISTS arg_INSTALLED)
      target_link_libraries(lockstep_${module} INTERFACE $<INSTALL_INTERFACE:$<LINK_ONLY:${library}>>)
    endforeach()
    set_property(TARGET lockstep_${module} APPEND PROPERTY LOCKSTEP_LIBRARIES ${arg_INSTALLED})
  endif()
endfunction()

function(lockstep_remove_sources target)
  get_target_property(sources ${target} SOURCES)
  list(REMOVE_ITEM sources ${ARGN})
  set_property(TARGET ${target} PROPERTY SOURCES ${sources})
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

# Precompiled headers, each built once and shared: TENSOR for code that sees only tensors, MODULE for a file that sees
# modules (which it more than halves), BATCH for a batch of files that do, and see JSON; NN for code that sees all of
# LibTorch. A translation unit that includes <torch/torch.h> takes 10 s without, 3 to 4 s with.
# BATCH takes 18 s of one core, and saves 5 s of each of eleven batches of the library and the command. A batch that sees
# tensors alone takes 2 to 4 s longer with it than with TENSOR: the file is three times as large.
function(lockstep_precompile target kind)
  string(TOLOWER ${kind}${LOCKSTEP_LEVEL} suffix)
  if(NOT TARGET lockstep_pch_${suffix})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/pch_${suffix}.cpp CONTENT "// Carries a precompiled header; holds nothing.\n")
    add_library(lockstep_pch_${suffix} OBJECT ${PROJECT_BINARY_DIR}/pch_${suffix}.cpp)
    target_link_libraries(lockstep_pch_${suffix} PRIVATE lockstep_flags lockstep_torch)
    if(LOCKSTEP_LEVEL EQUAL 1 AND NOT kind STREQUAL "TENSOR")  # programs, which read flags
      target_link_libraries(lockstep_pch_${suffix} PRIVATE CLI11::CLI11)
      target_precompile_headers(lockstep_pch_${suffix} PRIVATE <CLI/CLI.hpp>)
    endif()
    if(kind STREQUAL "NN")
      target_precompile_headers(lockstep_pch_${suffix} PRIVATE <torch/torch.h>)
    elseif(kind STREQUAL "BATCH")
      target_link_libraries(lockstep_pch_${suffix} PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
      target_precompile_headers(lockstep_pch_${suffix} PRIVATE <torch/nn/module.h> <ATen/TensorOperators.h>
                                <torch/csrc/autograd/custom_function.h> <torch/optim/optimizer.h> <fmt/format.h>
                                <nlohmann/json.hpp> <algorithm> <functional> <map> <memory> <optional> <string> <vector>)
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

# lockstep_program_names(program name...)
# Other names of a program that is many: it looks at the name under which it is started. Each is a target, too.
function(lockstep_program_names program)
  foreach(name IN LISTS ARGN)
    set(link ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name})
    add_custom_command(OUTPUT ${link} COMMAND ${CMAKE_COMMAND} -E create_symlink ${program} ${link})
    add_custom_target(${name} ALL DEPENDS ${link})
    add_dependencies(${name} ${program})
  endforeach()
endfunction()
