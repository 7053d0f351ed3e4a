#include "tools/accelerate/accelerate_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/regular_file.h"
#include "lockstep/base/text/lower_case.h"
#include "lockstep/base/text/nearest_name.h"
#include "lockstep/base/text/precision_name.h"
#include "lockstep/base/text/printable.h"
#include "tools/accelerate/accelerate_fsdp.h"

namespace lockstep {
namespace {

constexpr int kMostProcesses = 65536;

/// One key's value, and its location.
struct Entry {
  std::string path;
  std::string key;
  YAML::Node node;

  std::string where() const { return fmt::format("{}:{}", path, node.Mark().line + 1); }
  [[noreturn]] void refuse(const std::string& what, const std::string& fix) const {
    throw Error(fmt::format("{} {}", key, what), where(), fix);
  }
  std::string text() const {
    if (!node.IsScalar()) refuse("is not a single value", "write one, as in " + key + ": 1");
    return node.Scalar();
  }
};

bool switch_of(const Entry& entry) {
  const std::string text = lower_case(entry.text());
  if (text == "true" || text == "yes" || text == "on" || text == "1") return true;
  if (text == "false" || text == "no" || text == "off" || text == "0") return false;
  entry.refuse("is '" + printable(entry.text()) + "'", "write true or false");
}

int number_of(const Entry& entry, int least, int most) {
  int value = 0;
  if (!YAML::convert<int>::decode(entry.node, value) || value < least || value > most) {
    entry.refuse("is '" + printable(entry.text()) + "'",
                 fmt::format("write a whole number from {} to {}", least, most));
  }
  return value;
}

std::string choice_of(const Entry& entry, const std::string& text, const std::vector<std::string>& choices,
                      const std::string& why_not) {
  for (const std::string& choice : choices) {
    if (text == choice) return choice;
  }
  entry.refuse("is '" + printable(text) + "'" + why_not, fmt::format("write {}", fmt::join(choices, ", ")));
}

// Whether a section for another tool of Accelerate requests anything: Lockstep has none of these tools.
bool asks_for_something(const YAML::Node& node) {
  if (node.IsScalar()) {
    const std::string text = lower_case(node.Scalar());
    return !text.empty() && text != "no" && text != "false" && text != "null" && text != "~";
  }
  if (!node.IsMap()) return node.size() > 0;
  return std::any_of(node.begin(), node.end(), [](const auto& item) { return asks_for_something(item.second); });
}

void refuse_foreign(const Entry& entry, const std::string& what) {
  if (!asks_for_something(entry.node)) return;
  entry.refuse("asks for " + what + ", which Lockstep does not support",
               "remove " + entry.key + ", or answer no to its question in `lockstep config`");
}

void read_distributed_type(AccelerateConfig& config, const Entry& entry) {
  const std::string text = entry.text();
  if (text == "DEEPSPEED") {
    entry.refuse("asks for DeepSpeed, whose stages are FSDP's here",
                 "write FSDP, and fsdp_config with fsdp_reshard_after_forward: false for stage 2, or true for stage 3");
  }
  config.distributed_type =
      choice_of(entry, text, {"NO", "MULTI_CPU", "MULTI_GPU", "FSDP"}, ", which Lockstep does not support");
}

void read_dynamo(const Entry& entry) {
  if (entry.node.IsMap() && entry.node["dynamo_backend"] && !asks_for_something(entry.node["dynamo_backend"])) return;
  refuse_foreign(entry, "torch dynamo, a compiler of Python code");
}

// accelerate starts mpirun if there is a host file. Without one it ignores the number of oneCCL's threads.
void read_mpirun(const Entry& entry) {
  const YAML::Node& section = entry.node;
  const bool asks = !section.IsMap()
                        ? asks_for_something(section)
                        : std::any_of(section.begin(), section.end(), [](const auto& item) {
                            const bool is_ignored = item.first.IsScalar() && item.first.Scalar() == "mpirun_ccl";
                            return !is_ignored && asks_for_something(item.second);
                          });
  if (asks) refuse_foreign(entry, "mpirun; start the program with mpirun itself");
}

using Reader = std::function<void(AccelerateConfig&, const Entry&)>;

const std::map<std::string, Reader>& readers() {
  using Config = AccelerateConfig;
  static const auto foreign = [](const char* what) {
    return [what](Config&, const Entry& entry) { refuse_foreign(entry, what); };
  };
  static const std::map<std::string, Reader> all{
      {"compute_environment",
       [](Config& c, const Entry& e) {
         c.compute_environment = choice_of(e, e.text(), {"LOCAL_MACHINE"}, ", where Lockstep does not run");
       }},
      {"debug", [](Config& c, const Entry& e) { c.debug = switch_of(e); }},
      {"distributed_type", [](Config& c, const Entry& e) { read_distributed_type(c, e); }},
      {"downcast_bf16",
       [](Config&, const Entry& e) {
         if (switch_of(e)) e.refuse("is for TPUs, which Lockstep does not drive", "write 'no'");
       }},
      {"enable_cpu_affinity", [](Config& c, const Entry& e) { c.enable_cpu_affinity = switch_of(e); }},
      {"fp16",  // in old files
       [](Config& c, const Entry& e) { c.mixed_precision = switch_of(e) ? "fp16" : "no"; }},
      {"gpu_ids", [](Config& c, const Entry& e) { c.gpu_ids = e.text(); }},
      {"machine_rank", [](Config& c, const Entry& e) { c.machine_rank = number_of(e, 0, kMostProcesses - 1); }},
      {"main_process_ip", [](Config& c, const Entry& e) { c.main_process_ip = e.text(); }},
      {"main_process_port", [](Config& c, const Entry& e) { c.main_process_port = number_of(e, 0, 65535); }},
      {"main_training_function", [](Config& c, const Entry& e) { c.main_training_function = e.text(); }},
      {"mixed_precision",
       [](Config& c, const Entry& e) {
         const std::string text = lower_case(e.text());
         c.mixed_precision = choice_of(e, text == "false" ? "no" : precision_name(text), {"no", "fp16", "bf16"},
                                       ", which Lockstep does not support");
       }},
      {"num_machines", [](Config& c, const Entry& e) { c.num_machines = number_of(e, 1, kMostProcesses); }},
      {"num_processes",
       [](Config& c, const Entry& e) { c.num_processes = e.text() == "-1" ? -1 : number_of(e, 1, kMostProcesses); }},
      {"rdzv_backend",
       [](Config& c, const Entry& e) {
         c.rdzv_backend = choice_of(e, e.text(), {"static", "c10d"}, ", which Lockstep does not support");
       }},
      {"same_network", [](Config& c, const Entry& e) { c.same_network = switch_of(e); }},
      {"use_cpu", [](Config& c, const Entry& e) { c.use_cpu = switch_of(e); }},
      {"deepspeed_config", foreign("DeepSpeed")},
      {"fsdp_config",
       [](Config& c, const Entry& e) {
         if (asks_for_something(e.node)) c.fsdp_config = read_fsdp_config(e.node, e.path);
       }},
      {"megatron_lm_config", foreign("Megatron-LM")},
      {"parallelism_config",
       [](Config& c, const Entry& e) {
         if (asks_for_something(e.node)) c.parallelism = read_parallelism_config(e.node, e.path);
       }},
      {"fp8_config", foreign("fp8")},
      {"mpirun_config", [](Config&, const Entry& e) { read_mpirun(e); }},
      {"ipex_config", foreign("Intel's extension of PyTorch")},
      {"dynamo_config", [](Config&, const Entry& e) { read_dynamo(e); }},
      {"dynamo_backend", [](Config&, const Entry& e) { read_dynamo(e); }},
      {"tpu_env", foreign("a TPU")},
      {"tpu_name", foreign("a TPU")},
      {"tpu_zone", foreign("a TPU")},
      {"tpu_vm", foreign("a TPU")},
      {"tpu_use_cluster", foreign("a cluster of TPUs")},
      {"tpu_use_sudo", foreign("a TPU")},
      {"commands", foreign("commands for TPUs")},
      {"command_file", foreign("commands for TPUs")},
  };
  return all;
}

void refuse_unknown(const std::string& path, const YAML::Node& key) {
  std::vector<std::string> known;
  for (const auto& reader : readers()) known.push_back(reader.first);
  throw Error(fmt::format("unknown key '{}'{}", printable(key.Scalar()), did_you_mean(key.Scalar(), known)),
              fmt::format("{}:{}", path, key.Mark().line + 1), "correct it or remove it");
}

// The YAML library turns the escapes \_ and \N into single bytes, which are not UTF-8.
void refuse_broken_text(const YAML::Node& node, const std::string& path) {
  if (!node.IsScalar() || !invalid_utf8_at(node.Scalar())) return;
  throw Error(fmt::format("the text \"{}\" is not UTF-8", printable(node.Scalar())),
              fmt::format("{}:{}", path, node.Mark().line + 1), "write the character itself in place of an escape");
}

constexpr int kDeepestConfig = 16;
constexpr int kMostConfigNodes = 10000;

// Python's reader silently takes the last of two values; other readers take the first. An alias may lead back to its
// own place, or expand a short text without limit.
void refuse_duplicates(const YAML::Node& node, const std::string& path, int depth, int& nodes) {
  if (depth > kDeepestConfig || ++nodes > kMostConfigNodes) {
    throw Error("this file is nested too deeply, or too large, for a configuration",
                fmt::format("{}:{}", path, node.Mark().line + 1),
                "write it again with `lockstep config --config-file " + path + "`");
  }
  std::map<std::string, int> lines;
  for (const auto& item : node) {
    const YAML::Node value = node.IsMap() ? item.second : YAML::Node(item);
    if (node.IsMap()) refuse_broken_text(item.first, path);
    refuse_broken_text(value, path);
    if (node.IsMap() && item.first.IsScalar()) {
      const int line = item.first.Mark().line + 1;
      const auto [first, is_new] = lines.emplace(item.first.Scalar(), line);
      if (!is_new) {
        throw Error(fmt::format("the key '{}' occurs twice: here and in line {}", printable(item.first.Scalar()),
                                first->second),
                    fmt::format("{}:{}", path, line), "remove one of the two");
      }
    }
    if (value.IsMap() || value.IsSequence()) refuse_duplicates(value, path, depth + 1, nodes);
  }
}

void check_together(const AccelerateConfig& config, const std::string& path) {
  if (config.num_processes > 0 && config.num_processes % config.num_machines != 0) {
    throw Error(fmt::format("num_processes is {}, which {} machines cannot share evenly", config.num_processes,
                            config.num_machines),
                path, "num_processes counts the processes of all machines together: make it a multiple");
  }
  if (config.machine_rank >= config.num_machines) {
    throw Error(fmt::format("machine_rank is {}, but num_machines is {}", config.machine_rank, config.num_machines),
                path, "machines are numbered from 0");
  }
  const bool asks_for_fsdp = !config.fsdp_config.empty() || config.parallelism;
  if (asks_for_fsdp && config.distributed_type != "FSDP") {
    throw Error(fmt::format("fsdp_config and parallelism_config cannot be combined with distributed_type {}",
                            config.distributed_type),
                path, "write distributed_type: FSDP, or remove both sections");
  }
  if (config.distributed_type == "NO" && config.num_processes > 1) {
    throw Error(fmt::format("distributed_type is NO, but num_processes is {}", config.num_processes), path,
                "write MULTI_CPU or MULTI_GPU, or one process");
  }
}

// The YAML library takes any bytes, and none but UTF-8 could be written again.
void check_utf8(const std::string& text, const std::string& path) {
  const std::optional<std::size_t> at = invalid_utf8_at(text);
  if (!at) return;
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*at), '\n');
  throw Error(fmt::format("byte \\x{:02x} is not UTF-8", static_cast<unsigned char>(text[*at])),
              fmt::format("{}:{}", path, line), "save the file as UTF-8");
}

}  // namespace

AccelerateConfig read_accelerate_config(const std::string& path) {
  YAML::Node root;
  try {
    const std::string text = read_regular_file(path, kMostSettingsBytes);
    check_utf8(text, path);
    root = YAML::Load(text);  // JSON is YAML
  } catch (const YAML::Exception& error) {
    throw Error("this is not YAML: " + printable(error.msg), fmt::format("{}:{}", path, error.mark.line + 1),
                "correct the line, or write the file again with `lockstep config --config-file " + path + "`");
  }
  if (!root.IsMap()) {
    throw Error("this file contains no configuration", path,
                "write it with `lockstep config --config-file " + path + "`");
  }
  int nodes = 0;
  refuse_duplicates(root, path, 0, nodes);
  AccelerateConfig config;
  if (!root["distributed_type"]) {
    throw Error("there is no distributed_type", path, "add distributed_type: NO, MULTI_CPU or MULTI_GPU");
  }
  for (const auto& item : root) {
    if (!item.first.IsScalar()) throw Error("a key is not a string", path, "write KEY: VALUE on each line");
    const auto reader = readers().find(item.first.Scalar());
    if (reader == readers().end()) refuse_unknown(path, item.first);
    if (item.second.IsNull()) continue;
    reader->second(config, Entry{path, item.first.Scalar(), item.second});
    config.given.insert(item.first.Scalar());
  }
  check_together(config, path);
  return config;
}

}  // namespace lockstep
