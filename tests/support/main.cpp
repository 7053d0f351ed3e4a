#include "tests/support/run_tests.h"

// The program of every folder of tests that has no main of its own.
int main(int argc, char** argv) { return lockstep::testing::run_tests(&argc, argv); }
