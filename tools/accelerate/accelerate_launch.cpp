#include "tools/accelerate/accelerate_launch.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/accelerate_config_path.h"
#include "lockstep/base/text/flag_name.h"
#include "lockstep/base/text/precision_name.h"
#include "lockstep/launch/numbers.h"
#include "lockstep/launch/ranks/device_count.h"
#include "tools/accelerate/accelerate_config.h"
#include "tools/accelerate/accelerate_fsdp.h"

namespace lockstep {
namespace {

/// The sources of a setting's value, besides its flag.
struct SettingSource {
  const char* name;      // the flag is this with hyphens
  const char* variable;  // of the environment; may be null
  bool is_switch;
  const char* otherwise;  // null: determined automatically
  const char* help;
};

constexpr SettingSource kSettings[] = {
    {"num_processes", nullptr, false, nullptr, "number of processes on all machines together"},
    {"num_machines", nullptr, false, "1", "machines"},
    {"machine_rank", nullptr, false, "0", "rank of this machine"},
    {"main_process_ip", "MASTER_ADDR", false, "127.0.0.1", "address of machine 0"},
    {"main_process_port", "MASTER_PORT", false, "", "port on machine 0; 0: a free one, on one machine"},
    {"mixed_precision", "ACCELERATE_MIXED_PRECISION", false, "no", "no, fp16 or bf16; Accelerator reads it"},
    {"gradient_accumulation_steps", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS", false, "1",
     "batches per optimizer step; Accelerator reads it"},
    {"cpu", "ACCELERATE_USE_CPU", true, "false", "hide GPUs from the program"},
    {"gpu_ids", nullptr, false, "all", "GPUs of this machine that the program sees: all, or 0,1"},
    {"num_cpu_threads_per_process", "OMP_NUM_THREADS", false, "",
     "threads of each process; default: cores / processes"},
    {"enable_cpu_affinity", "ACCELERATE_CPU_AFFINITY", true, "false",
     "bind each process to a block of cores of its own"},
    {"debug", "ACCELERATE_DEBUG_MODE", true, "false", "passed on to programs; Lockstep always checks operations"},
    {"same_network", nullptr, true, "true", "all machines are on the same network"},
    {"rdzv_backend", "PET_RDZV_BACKEND", false, "static", "static, or c10d: machines get their ranks as they arrive"},
    {"rdzv_conf", "PET_RDZV_CONF", false, "", "KEY=VALUE,... as in `lockstep run`"},
    {"max_restarts", "PET_MAX_RESTARTS", false, "0", "how many times all processes are restarted after a failure"},
    {"monitor_interval", "PET_MONITOR_INTERVAL", false, "0.1",
     "seconds between two checks of the launcher that serves the store"},
    {"tee", "PET_TEE", false, "0", "streams that go to log files and to the console, as in `lockstep run`"},
    {"log_dir", "PET_LOG_DIR", false, "", "folder for log files"},
    {"role", "PET_ROLE", false, "default", "name of the processes' role"},
};

std::string flag_of(const std::string& name) { return "--" + with_hyphens(name); }

const char* text_of(bool value) { return value ? "true" : "false"; }

// Whether the file itself has the setting's value, and not only a default for it.
bool has_in_file(const AccelerateConfig& config, const std::string& setting) {
  if (setting == "cpu") return config.given.count("use_cpu") > 0;
  if (setting == "mixed_precision" && config.given.count("fp16") > 0) return true;
  return config.given.count(setting) > 0;
}

// The values of the file, by setting, and its defaults for those that it lacks.
std::map<std::string, std::string> values_of(const AccelerateConfig& config) {
  std::map<std::string, std::string> values{{"num_machines", std::to_string(config.num_machines)},
                                            {"machine_rank", std::to_string(config.machine_rank)},
                                            {"mixed_precision", config.mixed_precision},
                                            {"cpu", text_of(config.use_cpu)},
                                            {"enable_cpu_affinity", text_of(config.enable_cpu_affinity)},
                                            {"debug", text_of(config.debug)},
                                            {"same_network", text_of(config.same_network)},
                                            {"rdzv_backend", config.rdzv_backend}};
  if (config.num_processes > 0) values["num_processes"] = std::to_string(config.num_processes);
  if (config.gpu_ids) values["gpu_ids"] = *config.gpu_ids;
  if (config.main_process_ip) values["main_process_ip"] = *config.main_process_ip;
  if (config.main_process_port) values["main_process_port"] = std::to_string(*config.main_process_port);
  return values;
}

std::string found_config_file(const AccelerateLaunchFlags& flags) {
  if (!flags.config_file.empty()) return flags.config_file;
  const std::string path = accelerate_config_path();
  return std::filesystem::exists(path) ? path : "";
}

LaunchSetting resolve(const SettingSource& source, const AccelerateLaunchFlags& flags,
                      const std::optional<AccelerateConfig>& file) {
  const std::string name = source.name;
  if (const auto given = flags.given.find(name); given != flags.given.end()) return {name, given->second, "flag"};
  if (source.variable != nullptr) {
    if (const auto value = env_string(source.variable)) {
      const std::string text = source.is_switch ? text_of(*env_bool(source.variable)) : *value;
      return {name, text, fmt::format("environment ({})", source.variable)};
    }
  }
  const auto values = file ? values_of(*file) : std::map<std::string, std::string>();
  if (const auto told = values.find(name); told != values.end()) {
    return {name, told->second, has_in_file(*file, name) ? "file" : "default"};
  }
  if (source.otherwise != nullptr) return {name, source.otherwise, "default"};
  return {name, "", ""};
}

void find_number_of_processes(AccelerateLaunch& launch) {
  const bool use_cpu = launch.setting("cpu").value == "true";
  for (LaunchSetting& setting : launch.settings) {
    if (setting.name != "num_processes" || !setting.origin.empty()) continue;
    const int gpus = use_cpu ? 0 : visible_gpus();
    const auto machines = parse_whole("--num-machines", launch.setting("num_machines").value, 1, 65536);
    setting.value = std::to_string(std::max(gpus, 1) * machines);
    setting.origin = gpus > 0 ? "a process for each GPU" : "no GPU was found: one process per machine";
  }
}

[[noreturn]] void refuse_setting(const LaunchSetting& setting, const std::string& fix) {
  throw UsageError(fmt::format("{} is '{}' (from: {})", flag_of(setting.name), setting.value, setting.origin),
                   "command line", fix);
}

void check_precision(LaunchSetting& setting) {
  setting.value = precision_name(setting.value);
  for (const char* known : {"no", "fp16", "bf16"}) {
    if (setting.value == known) return;
  }
  refuse_setting(setting, "use no, fp16 or bf16");
}

void fill_flags(AccelerateLaunch& launch, const AccelerateLaunchFlags& typed) {
  const auto value = [&](const char* name) { return launch.setting(name).value; };
  const auto machines = parse_whole("--num-machines", value("num_machines"), 1, 65536);
  const auto processes = parse_whole("--num-processes", value("num_processes"), 1, 65536);
  if (processes % machines != 0) {
    refuse_setting(launch.setting("num_processes"),
                   fmt::format("it counts the processes of all {} machines together: make it a multiple", machines));
  }
  parse_whole("--machine-rank", value("machine_rank"), 0, machines - 1);
  if (const std::string port = value("main_process_port"); !port.empty()) {
    parse_whole("--main-process-port", port, 0, 65535);
  }
  LaunchFlags& flags = launch.flags;
  flags.nnodes = value("num_machines");
  flags.nproc_per_node = std::to_string(processes / machines);
  flags.node_rank = value("machine_rank");
  flags.node_rank_given = launch.setting("machine_rank").origin != "default";
  flags.master_addr = value("main_process_ip");
  flags.master_port = value("main_process_port");
  flags.rdzv_backend = value("rdzv_backend");
  flags.rdzv_conf = value("rdzv_conf");
  flags.max_restarts = value("max_restarts");
  flags.monitor_interval = value("monitor_interval");
  flags.tee = value("tee");
  flags.log_dir = value("log_dir");
  flags.role = value("role");
  if (value("enable_cpu_affinity") == "true") flags.cpu_affinity = "split";
  flags.module = typed.module;
  flags.no_python = typed.no_python;
  flags.command = typed.command;
}

void fill_environment(AccelerateLaunch& launch) {
  const auto value = [&](const char* name) { return launch.setting(name).value; };
  for (LaunchSetting& setting : launch.settings) {
    if (setting.name == "mixed_precision") check_precision(setting);
  }
  parse_whole("--gradient-accumulation-steps", value("gradient_accumulation_steps"), 1, 1 << 30);
  auto& environment = launch.environment;
  environment["ACCELERATE_MIXED_PRECISION"] = value("mixed_precision");
  environment["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] = value("gradient_accumulation_steps");
  environment["ACCELERATE_USE_CPU"] = value("cpu");
  environment["ACCELERATE_CPU_AFFINITY"] = value("enable_cpu_affinity") == "true" ? "1" : "0";
  if (value("debug") == "true") environment["ACCELERATE_DEBUG_MODE"] = "true";
  if (value("cpu") == "true") {
    environment["CUDA_VISIBLE_DEVICES"] = "";
  } else if (value("gpu_ids") != "all") {
    environment["CUDA_VISIBLE_DEVICES"] = value("gpu_ids");
  }
  if (const std::string threads = value("num_cpu_threads_per_process"); !threads.empty()) {
    parse_whole("--num-cpu-threads-per-process", threads, 1, 65536);
    environment["OMP_NUM_THREADS"] = threads;
  }
}

// A file for GPUs on a host without one: the ranks would compute on the CPU, and nothing else would show it.
std::string warning_of_gpus(const AccelerateLaunch& launch, const AccelerateConfig& file) {
  const bool wants_gpus = file.distributed_type == "MULTI_GPU" && launch.setting("cpu").value != "true";
  if (!wants_gpus || visible_gpus() > 0) return "";
  return fmt::format(
      "{} says distributed_type: MULTI_GPU, but this host shows no GPU (CUDA_VISIBLE_DEVICES, /dev/nvidia*): the ranks "
      "compute on the CPU. If that is intended, give --cpu, or write MULTI_CPU",
      launch.config_file);
}

}  // namespace

void add_accelerate_launch_flags(CLI::App& app, AccelerateLaunchFlags& flags) {
  app.add_option("--config-file", flags.config_file,
                 "configuration file; default: the one that lockstep config wrote, if it exists");
  app.add_flag("--show-config", flags.show_config, "print each value with its origin, and start nothing");
  app.add_flag("-q,--quiet", flags.quiet, "do not print which values were chosen automatically");
  for (const SettingSource& source : kSettings) {
    const std::string name = source.name;
    const std::string flag = flag_of(name) + (name == "tee" ? ",-t" : "");
    if (source.is_switch) {
      app.add_flag_callback(
          flag, [&flags, name] { flags.given[name] = "true"; }, source.help);
      continue;
    }
    std::string help = source.help;
    if (source.otherwise != nullptr && source.otherwise[0] != '\0') help += fmt::format(" [{}]", source.otherwise);
    app.add_option_function<std::string>(
           flag, [&flags, name](const std::string& text) { flags.given[name] = text; }, help)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  app.add_flag("-m,--module", flags.module, "the program is a Python module: python3 -u -m");
  app.add_flag("--no-python", flags.no_python, "run the program directly, even if its name ends in .py");
  app.prefix_command();
  app.callback([&app, &flags] {
    flags.command = app.remaining();
    if (!flags.command.empty() && flags.command.front() == "--") flags.command.erase(flags.command.begin());
  });
}

const LaunchSetting& AccelerateLaunch::setting(const std::string& name) const {
  return *std::find_if(settings.begin(), settings.end(), [&](const LaunchSetting& each) { return each.name == name; });
}

AccelerateLaunch resolve_accelerate_launch(const AccelerateLaunchFlags& flags) {
  AccelerateLaunch launch;
  launch.config_file = found_config_file(flags);
  std::optional<AccelerateConfig> file;
  if (!launch.config_file.empty()) file = read_accelerate_config(launch.config_file);
  for (const SettingSource& source : kSettings) launch.settings.push_back(resolve(source, flags, file));
  find_number_of_processes(launch);
  fill_flags(launch, flags);
  fill_environment(launch);
  if (file) {
    const auto machines = parse_whole("--num-machines", launch.setting("num_machines").value, 1, 65536);
    const auto processes = parse_whole("--num-processes", launch.setting("num_processes").value, 1, 65536);
    for (const auto& [name, value] :
         fsdp_environment(*file, static_cast<int>(machines), static_cast<int>(processes), launch.config_file)) {
      if (!env_string(name.c_str())) launch.environment.emplace(name, value);
    }
  }
  if (file) launch.warning = warning_of_gpus(launch, *file);
  return launch;
}

}  // namespace lockstep
