#include "bench/tables/wrapper_turns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <optional>

#include "bench/measure/bench_folder.h"
#include "bench/measure/worker_program.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/cpu_mask.h"
#include "lockstep/base/text/flag_name.h"
#include "lockstep/models/registry.h"
#include "tools/frame/companion.h"
#include "tools/frame/sequence_flag.h"
#include "tools/frame/shell.h"
#include "tools/models/verify_data.h"

namespace lockstep {
namespace {

bool is_ddp(const WrapperContender& contender) { return contender.wrapper.rfind("ddp-", 0) == 0; }

// While it lives, this process and its children may run only on `cores` cores.
class CoreLimit {
 public:
  explicit CoreLimit(int cores) {
    if (!before_) return;
    std::vector<int> some = before_->cores();
    some.resize(std::min(some.size(), static_cast<std::size_t>(cores)));
    CpuMask(some).bind_this_thread();
  }
  ~CoreLimit() {
    if (before_) before_->bind_this_thread();
  }
  CoreLimit(const CoreLimit&) = delete;
  CoreLimit& operator=(const CoreLimit&) = delete;

 private:
  const std::optional<CpuMask> before_ = CpuMask::of(0);
};

std::string worker_command(const WrapperContender& contender, const WrapperWork& work) {
  const int processes = contender.wrapper == "ddp-processes" ? contender.replicas : 1;
  std::string line = run_command(processes, contender.threads);
  line += shell_quoted(companion_program("lockstep-wrapper-worker"));
  line += fmt::format(" --wrapper {} --model {} --replicas {} --batch {} --steps {}", contender.wrapper, work.model,
                      contender.replicas, fmt::join(work.batches, ","), fmt::join(work.steps, ","));
  if (work.sequence_length > 0) line += fmt::format(" --seq {}", work.sequence_length);
  if (!work.data.empty()) line += " --data " + shell_quoted(work.data);
  // Ranks that measure time by themselves would stop at different steps.
  if (work.seconds > 0 && !is_ddp(contender)) line += fmt::format(" --seconds {}", work.seconds);
  return line;
}

// Adds up the memory of processes.
class MemorySum {
 public:
  void add(const nlohmann::ordered_json& process) {
    private_and_shared_ += process.at("private_mib").get<double>() + process.at("shared_mib").get<double>();
    file_ = std::max(file_, process.at("file_mib").get<double>());
  }
  double mb() const { return private_and_shared_ + file_; }

 private:
  double private_and_shared_ = 0;
  double file_ = 0;
};

std::vector<std::string> code_lines(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    line.erase(0, line.find_first_not_of(" \t"));
    if (!line.empty() && line.rfind("//", 0) != 0) lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> program_lines(const std::string& wrapper) {
  return code_lines(fmt::format("{}/wrappers/{}.cpp", bench_folder(), with_underscores(wrapper)));
}

}  // namespace

const std::vector<std::string>& known_wrappers() {
  static const std::vector<std::string> names{"one-device", "data-parallel", "parallel-loss", "ddp-threads",
                                              "ddp-processes"};
  return names;
}

bool fits(const WrapperContender& contender, std::int64_t batch) {
  return !is_ddp(contender) || batch % contender.replicas == 0;
}

std::vector<WrapperResult> take_turn(const WrapperContender& contender, const WrapperWork& work) {
  const CoreLimit limit(contender.replicas * contender.threads);
  const std::string name = fmt::format("{}, {} replica(s)", contender.wrapper, contender.replicas);
  const auto printed = results_of(worker_command(contender, work), name, work.batches.size());
  std::vector<WrapperResult> results;
  for (const std::int64_t batch : work.batches) {
    WrapperResult result;
    result.batch = batch;
    MemorySum memory;
    for (const auto& line : printed) {
      if (line.at("batch") != batch) continue;
      // Ranks that are threads share one process, and all report its memory.
      if (contender.wrapper == "ddp-processes" || line.at("rank") == 0) memory.add(line);
      if (line.at("rank") != 0) continue;
      result.median_ms = line.at("median_ms");
      result.steps = line.at("steps");
      result.parameters = line.at("parameters");
    }
    if (result.steps == 0)
      throw Error(name + " printed nothing from rank 0", worker_command(contender, work), "report it");
    result.memory_mib = memory.mb();
    results.push_back(result);
  }
  return results;
}

void check_work(const WrapperWork& work) {
  const auto model = make_model(work.model);
  check_sequence_flag(*model, work.model, work.sequence_length);
  const std::int64_t largest = *std::max_element(work.batches.begin(), work.batches.end());
  if (work.data.empty()) {
    RandomBatchOptions shape;
    shape.sequence_length = work.sequence_length;
    model->random_batch(shape);  // refuses texts that are too long
    return;
  }
  const auto data = verification_data(*model, work.data);
  if (data->size() < largest) {
    throw UsageError(fmt::format("--batch has {}, but there are {} samples", largest, data->size()), work.data,
                     "make it smaller");
  }
}

SourceLines source_lines(const std::string& wrapper) {
  const std::vector<std::string> lines = program_lines(wrapper);
  std::map<std::string, int> plain;
  for (const std::string& line : program_lines("one-device")) ++plain[line];
  SourceLines count;
  for (const std::string& line : lines) {
    ++count.all;
    if (--plain[line] < 0) ++count.changed;
  }
  return count;
}

}  // namespace lockstep
