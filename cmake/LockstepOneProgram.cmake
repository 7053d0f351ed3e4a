# lockstep_one_program(target source...)
# Builds programs, each a file with a main of its own, as one that looks at the name under which it is started; a link in
# the folder of programs has the name of each. Each file is compiled in a namespace, several in one translation unit,
# behind all that any of them includes: LibTorch's headers cost a compiler 4 s, and such a file 1 s.
function(lockstep_one_program target)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target})
  set(sources "")
  set(declared "")
  set(table "")
  foreach(file IN LISTS ARGN)
    get_filename_component(name ${file} NAME_WE)
    list(APPEND names ${name})
    string(APPEND declared "namespace of_${name} { int run(int argc, char** argv); }\n")
    string(APPEND table "    {\"${name}\", of_${name}::run},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${folder}/main.cpp @ONLY CONTENT [=[
// Starts the program whose name it is started under.
#include <cstdio>
#include <cstring>

@declared@
int main(int argc, char** argv) {
  const struct {
    const char* name;
    int (*run)(int, char**);
  } programs[] = {
@table@  };
  const char* const slash = std::strrchr(argv[0], '/');
  const char* const called = slash != nullptr ? slash + 1 : argv[0];
  for (const auto& program : programs) {
    if (std::strcmp(program.name, called) == 0) return program.run(argc, argv);
  }
  std::fprintf(stderr, "%s is several programs; start it under the name of one:", called);
  for (const auto& program : programs) std::fprintf(stderr, " %s", program.name);
  std::fprintf(stderr, "\n");
  return 2;
}
]=])
  list(LENGTH ARGN count)
  math(EXPR last "${count} - 1")
  foreach(begin RANGE 0 ${last} 10)
    list(SUBLIST ARGN ${begin} 10 files)
    set(includes "")
    set(bodies "")
    foreach(file IN LISTS files)
      get_filename_component(name ${file} NAME_WE)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
      file(STRINGS ${file} lines REGEX "^#include ")
      list(APPEND includes ${lines})
      string(APPEND bodies "namespace of_${name} {\n#include \"${CMAKE_CURRENT_SOURCE_DIR}/${file}\"\n"
                           "int run(int argc, char** argv) { return detail_of_programs::run(main, argc, argv); }\n}\n")
    endforeach()
    list(REMOVE_DUPLICATES includes)
    list(JOIN includes "\n" includes)
    file(CONFIGURE OUTPUT ${folder}/batch_${begin}.cpp @ONLY CONTENT [=[
@includes@

namespace detail_of_programs {
namespace {
[[maybe_unused]] int run(int (*program)(), int, char**) { return program(); }
[[maybe_unused]] int run(int (*program)(int, char**), int argc, char** argv) { return program(argc, argv); }
}  // namespace
}  // namespace detail_of_programs

@bodies@]=])
    list(APPEND sources ${folder}/batch_${begin}.cpp)
  endforeach()
  add_executable(${target} ${folder}/main.cpp ${sources})
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE -Werror=return-type)  # only the global main returns 0 by itself
  lockstep_program_names(${target} ${names})
endfunction()
