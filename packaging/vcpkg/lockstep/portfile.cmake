# An overlay port: it builds the checkout that it lies in.
cmake_path(SET SOURCE_PATH NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../../..")

# Engine gloo is built if Gloo is found, so without the feature it must not be found.
set(gloo_options "")
if(NOT "gloo" IN_LIST FEATURES)
  set(gloo_options -DLOCKSTEP_GLOO_INCLUDE= -DLOCKSTEP_GLOO_LIBRARY=)
endif()

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    ${gloo_options}
    -DLOCKSTEP_TESTS=OFF
    -DCMAKE_UNITY_BUILD=ON
    -DCMAKE_UNITY_BUILD_BATCH_SIZE=32
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/Lockstep)
vcpkg_fixup_pkgconfig()

# The command looks for the programs that it starts in its own folder first.
vcpkg_copy_tools(TOOL_NAMES lockstep AUTO_CLEAN)
file(GLOB companions "${CURRENT_PACKAGES_DIR}/libexec/lockstep/*")
file(COPY ${companions} DESTINATION "${CURRENT_PACKAGES_DIR}/tools/${PORT}")
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/libexec" "${CURRENT_PACKAGES_DIR}/debug/libexec"
                    "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
