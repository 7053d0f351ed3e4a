# What shared libraries export: what include/ names under the version LOCKSTEP_<major>.<minor>, the rest of namespace
# lockstep, which modules use of each other, under LOCKSTEP_PRIVATE_<version>, and nothing else. See symbol_versions.py.
set(lockstep_symbol_versions ${PROJECT_BINARY_DIR}/symbol_versions.map)
file(GLOB_RECURSE lockstep_public_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/*.h)
add_custom_command(OUTPUT ${lockstep_symbol_versions} VERBATIM
                   COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/cmake/symbol_versions.py
                           ${PROJECT_SOURCE_DIR}/include ${PROJECT_VERSION} ${lockstep_symbol_versions}
                   DEPENDS ${PROJECT_SOURCE_DIR}/cmake/symbol_versions.py ${lockstep_public_headers})
add_custom_target(lockstep_symbol_versions DEPENDS ${lockstep_symbol_versions})

function(lockstep_give_versions target)
  add_dependencies(${target} lockstep_symbol_versions)
  target_link_options(${target} PRIVATE LINKER:--version-script=${lockstep_symbol_versions})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${lockstep_symbol_versions})
endfunction()

# An engine that is loaded where it is used exports its entries, which are C functions. The types of errors that it throws
# are compared by their names.
function(lockstep_engine_module target)
  set(script ${PROJECT_SOURCE_DIR}/cmake/engine_module.map)
  target_link_options(${target} PRIVATE LINKER:--version-script=${script})
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${script} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_ENGINE_MODULES ${target})
endfunction()
