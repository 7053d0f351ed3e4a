#include <sys/resource.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/net/child_process.h"
#include "tests/support/run_tests.h"

// Runs the tests of one module, and the processes that they start: `net_test --child ROLE ARGUMENTS...`.
int main(int argc, char** argv) {
  if (argc >= 3 && std::string(argv[1]) == "--child") {
    return lockstep::testing::child_roles().at(argv[2])(std::vector<std::string>(argv + 3, argv + argc));
  }
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;  // both ends of many connections are in this process
  ::setrlimit(RLIMIT_NOFILE, &files);
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                           "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE",
                           "LOCKSTEP_STORE", "LOCKSTEP_SECRET", "LOCKSTEP_SECRET_FILE"}) {
    ::unsetenv(name);
  }
  return lockstep::testing::run_tests(&argc, argv);
}
