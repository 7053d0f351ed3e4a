# Finds what the project is built on. Required libraries stop the configuration; optional ones end up in the summary.
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(ZLIB REQUIRED)
find_package(Snappy REQUIRED)
find_package(zstd REQUIRED)
set(lockstep_zstd zstd::libzstd_shared)
if(NOT TARGET zstd::libzstd_shared)
  set(lockstep_zstd zstd::libzstd_static)  # of a package with one of the two
endif()
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(ICU REQUIRED COMPONENTS uc)
find_package(simdjson REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

include(LockstepTorch)

# Records one line of the table that ends the configuration.
function(lockstep_report what value)
  set_property(GLOBAL APPEND_STRING PROPERTY LOCKSTEP_SUMMARY "  ${what}: ${value}\n")
endfunction()

function(lockstep_print_summary)
  get_property(lines GLOBAL PROPERTY LOCKSTEP_SUMMARY)
  message(STATUS "Lockstep ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}\n${lines}")
endfunction()

lockstep_report("LibTorch" "${Torch_VERSION} (${LOCKSTEP_TORCH})${LOCKSTEP_TORCH_WITHOUT_CUDA}")
