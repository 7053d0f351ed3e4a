// Makes hosts of network namespaces, starts a process on one of them, prints its number, and waits to be ended.
#include <unistd.h>

#include <cstdio>

#include "tests/support/running_program.h"
#include "tools/hosts/network_hosts.h"

int main() {
  const lockstep::NetworkHosts hosts(2, "1gbit");
  lockstep::RunningProgram stays(hosts.on(1, {"sh", "-c", "echo there; exec sleep 600"}));
  if (!stays.wait_for("there", lockstep::Deadline::after(std::chrono::seconds(60)))) return 1;
  std::printf("%d\n", static_cast<int>(stays.pid()));
  std::fflush(stdout);
  ::pause();
  return 1;
}
