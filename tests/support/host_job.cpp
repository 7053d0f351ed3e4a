#include "tests/support/host_job.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

#include "tests/support/running_program.h"

namespace lockstep {
namespace {

// The cores of a host, as taskset writes them.
std::string cores_of_host(int host, int hosts) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (hosts > cores) return std::to_string(host % cores);
  const int each = cores / hosts;
  return std::to_string(host * each) + "-" + std::to_string((host + 1) * each - 1);
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

nlohmann::ordered_json run_on_hosts(const NetworkHosts& hosts, const std::string& bin,
                                    const std::vector<std::string>& program, const HostJobOptions& options) {
  std::map<std::string, std::optional<std::string>> changes{{"LOCKSTEP_SECRET", "5ec2e7000000000000000000000000a1"},
                                                            {"OMP_NUM_THREADS", "1"},
                                                            {"OPENBLAS_NUM_THREADS", "1"},
                                                            {"MKL_NUM_THREADS", "1"}};
  for (const auto& [name, value] : options.variables) changes[name] = value;
  std::vector<std::unique_ptr<RunningProgram>> nodes;
  for (int host = 0; host < hosts.count(); ++host) {
    std::vector<std::string> command;
    if (options.own_cores) command = {"taskset", "-c", cores_of_host(host, hosts.count())};
    command.insert(command.end(),
                   {bin + "/lockstep", "run", "--nproc-per-node", std::to_string(options.ranks_per_host)});
    if (!options.apart) {
      command.insert(command.end(), {"--nnodes", std::to_string(hosts.count()), "--node-rank", std::to_string(host),
                                     "--master-addr", hosts.address(0)});
    }
    command.insert(command.end(), program.begin(), program.end());
    command = hosts.on(host, command);
    if (!options.limits.empty()) command = options.limits.at(static_cast<std::size_t>(host))->on(command);
    nodes.push_back(std::make_unique<RunningProgram>(command, changes));
  }
  const Deadline deadline = Deadline::after(options.deadline);
  std::vector<ProgramEnd> ends;
  for (const auto& node : nodes) ends.push_back(node->wait(deadline));
  for (std::size_t host = 0; host < ends.size(); ++host) {
    if (ends[host].code == 0) continue;
    throw std::runtime_error(program.front() + " failed on " + hosts.name(static_cast<int>(host)) + ":\n" +
                             ends[host].err + ends[host].out);
  }
  const std::string line = last_line(ends.front().out);
  auto result = nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!result.is_object()) throw std::runtime_error(program.front() + " printed \"" + line + "\"");
  return result;
}

}  // namespace lockstep
