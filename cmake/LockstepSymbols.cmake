# What shared libraries export: what belongs to namespace lockstep, and nothing else.
function(lockstep_hide_others target)
  set(script ${PROJECT_SOURCE_DIR}/cmake/shared_library.map)
  target_link_options(${target} PRIVATE LINKER:--version-script=${script})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script})
endfunction()

# An engine that is loaded where it is used exports its entries, which are C functions. The types of errors that it throws
# are compared by their names.
function(lockstep_engine_module target)
  set(script ${PROJECT_SOURCE_DIR}/cmake/engine_module.map)
  target_link_options(${target} PRIVATE LINKER:--version-script=${script})
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${script} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_ENGINE_MODULES ${target})
endfunction()
