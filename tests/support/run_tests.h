#pragma once

namespace lockstep::testing {

/// Runs the tests that the command line names, as every test program does.
///
/// With `--gtest_output=xml:PLACE/NAME.xml`, `PLACE/NAME.running` holds the name of the test that runs, and is removed
/// at the end: a process that is killed writes no results, but leaves that name. Results of an earlier run are removed
/// at the start, so that nobody takes them for those of a run that was killed.
///
/// @return  the exit status: not 0 if a test failed, or if the filter matches no test
int run_tests(int* argc, char** argv);

}  // namespace lockstep::testing
