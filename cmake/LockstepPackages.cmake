# cpack: Debian packages, one for each component. dpkg-shlibdeps finds the libraries that programs and engines need; the
# development package needs what its headers include and what its static libraries are linked with.
set(LOCKSTEP_PACKAGE_CONTACT "Lockstep developers <lockstep@localhost>" CACHE STRING
    "Maintainer of the Debian packages, name <address>: whoever builds packages for others is asked about them")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME lockstep)
set(CPACK_PACKAGE_VENDOR "Lockstep")
set(CPACK_PACKAGE_CONTACT "${LOCKSTEP_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL library development command benchmarks)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME liblockstep${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "Shared libraries, and engines that are loaded when they are used.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME liblockstep-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS library)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Headers and libraries for programs that train with Lockstep.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS nlohmann-json3-dev)
if(lockstep_torch_is_system)
  list(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS libtorch-dev)
endif()
if(NOT BUILD_SHARED_LIBS)
  list(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS libspdlog-dev libfmt-dev libssl-dev zlib1g-dev libsnappy-dev
       libzstd-dev libicu-dev libsimdjson-dev libyaml-cpp-dev)
  if(LOCKSTEP_GLOO_LIBRARY)
    list(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS libgloo-dev)
  endif()
endif()
list(JOIN CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME lockstep)
if(lockstep_torch_is_system)
  # LibTorch itself is content with the reference BLAS, which is many times slower. curl: for `lockstep data get`.
  set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "libopenblas0-pthread, curl")
endif()
set(CPACK_COMPONENT_COMMAND_DEPENDS library)
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "The command lockstep: starts ranks, trains, shows data, models and trainings.")

set(CPACK_DEBIAN_BENCHMARKS_PACKAGE_NAME lockstep-benchmarks)
set(CPACK_COMPONENT_BENCHMARKS_DEPENDS command)
set(CPACK_COMPONENT_BENCHMARKS_DESCRIPTION "What `lockstep bench` starts, compares with and reads.")

# Each package says who may copy it, and what changed.
string(TIMESTAMP lockstep_package_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/packaging/copyright @ONLY CONTENT [[
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: 2026 The Lockstep developers
License: Apache-2.0
 On Debian systems, the full text of the Apache License 2.0 is in the file
 /usr/share/common-licenses/Apache-2.0.
]])
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/packaging/changelog @ONLY CONTENT [[
lockstep (@PROJECT_VERSION@) unstable; urgency=medium

  * Built from the project's own sources: see CHANGELOG.md there.

 -- @LOCKSTEP_PACKAGE_CONTACT@  @lockstep_package_date@
]])
find_program(LOCKSTEP_GZIP gzip)
if(LOCKSTEP_GZIP)
  execute_process(COMMAND ${LOCKSTEP_GZIP} -9nf ${PROJECT_BINARY_DIR}/packaging/changelog)
endif()
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  install(FILES ${PROJECT_BINARY_DIR}/packaging/copyright ${PROJECT_BINARY_DIR}/packaging/changelog.gz OPTIONAL EXCLUDE_FROM_ALL
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME} COMPONENT ${component})
endforeach()

# Private libraries of this build are no package's: dpkg-shlibdeps finds them here.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/src/lockstep)
include(CPack)
