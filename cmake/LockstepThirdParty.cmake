# What CMake's find_package and pkg-config call the libraries that an installed module needs. A row: the target or library
# that lockstep_module names; arguments of find_package; pkg-config's name; else words for the linker.
list(TRANSFORM OpenMP_CXX_LIB_NAMES PREPEND -l OUTPUT_VARIABLE lockstep_openmp_words)
list(JOIN lockstep_openmp_words " " lockstep_openmp_words)
set(lockstep_third_party
    "Threads::Threads|Threads||-pthread"
    "fmt::fmt|fmt|fmt|"
    "spdlog::spdlog|spdlog|spdlog|"
    "nlohmann_json::nlohmann_json|nlohmann_json|nlohmann_json|"
    "OpenSSL::Crypto|OpenSSL COMPONENTS Crypto|libcrypto|"
    "ZLIB::ZLIB|ZLIB|zlib|"
    "Snappy::snappy|Snappy|snappy|"
    "zstd::libzstd_shared|zstd|libzstd|"
    "zstd::libzstd_static|zstd|libzstd|"
    "ICU::uc|ICU COMPONENTS uc|icu-uc|"
    "simdjson::simdjson|simdjson|simdjson|"
    "yaml-cpp|yaml-cpp|yaml-cpp|"
    "OpenMP::OpenMP_CXX|OpenMP COMPONENTS CXX||${lockstep_openmp_words}"
    "dl|||-ldl")

# lockstep_third_party(library find required words): three columns of its row. A path stands for itself.
function(lockstep_third_party library find required words)
  foreach(row IN LISTS lockstep_third_party)
    if(row MATCHES "^([^|]*)\\|([^|]*)\\|([^|]*)\\|([^|]*)$" AND CMAKE_MATCH_1 STREQUAL library)
      set(${find} "${CMAKE_MATCH_2}" PARENT_SCOPE)
      set(${required} "${CMAKE_MATCH_3}" PARENT_SCOPE)
      set(${words} "${CMAKE_MATCH_4}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  if(NOT IS_ABSOLUTE "${library}")
    message(FATAL_ERROR "An installed module links ${library}: give it a row in cmake/LockstepThirdParty.cmake.")
  endif()
  set(${find} "" PARENT_SCOPE)
  set(${required} "" PARENT_SCOPE)
  set(${words} "${library}" PARENT_SCOPE)
endfunction()

# lockstep_property(result module property): a list, empty if it was not set.
function(lockstep_property result module property)
  get_target_property(value lockstep_${module} ${property})
  if(NOT value)
    set(value "")
  endif()
  set(${result} "${value}" PARENT_SCOPE)
endfunction()

# The lines of LockstepConfig.cmake that say what each component needs.
function(lockstep_component_table result)
  set(lines "set(_lockstep_components ${lockstep_modules})\n")
  foreach(module IN LISTS lockstep_modules)
    lockstep_property(depends ${module} LOCKSTEP_DEPENDS)
    lockstep_property(torch ${module} LOCKSTEP_TORCH)
    lockstep_property(libraries ${module} LOCKSTEP_LIBRARIES)
    set(packages "")
    foreach(library IN LISTS libraries)
      lockstep_third_party(${library} find required words)
      if(find)
        list(APPEND packages "${find}")
      endif()
    endforeach()
    if(torch)
      list(APPEND depends start)
      list(REMOVE_DUPLICATES depends)
    else()
      set(torch FALSE)
    endif()
    string(APPEND lines "set(_lockstep_depends_${module} \"${depends}\")\n"
           "set(_lockstep_packages_${module} \"${packages}\")\nset(_lockstep_torch_${module} ${torch})\n")
  endforeach()
  set(${result} "${lines}" PARENT_SCOPE)
endfunction()
