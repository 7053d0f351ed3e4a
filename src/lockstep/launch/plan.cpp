#include "lockstep/launch/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/base/random/random_bits.h"
#include "lockstep/base/text/affixes.h"
#include "lockstep/base/trace/trace_window.h"
#include "lockstep/launch/numbers.h"
#include "lockstep/launch/process/child_process.h"
#include "lockstep/launch/ranks/device_count.h"
#include "lockstep/launch/ranks/spare_ranks.h"

namespace lockstep {
namespace {

constexpr int kMostRanks = 65536;
constexpr std::uint16_t kStaticPort = 29500;  // torchrun's defaults
constexpr std::uint16_t kC10dPort = 29400;
constexpr double kJoinTimeoutSeconds = 600;
constexpr double kLastCallSeconds = 30;
constexpr double kKeepAliveInterval = 5;
constexpr int kKeepAliveAttempts = 3;
constexpr int kKeepAliveAttemptsOfFixedNodes = 2;

[[noreturn]] void refuse(const std::string& what, const std::string& fix) {
  throw UsageError(what, "command line", fix);
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

void read_nodes(LaunchPlan& plan, const std::string& text) {
  const std::vector<std::string> ends = split(text, ':');
  if (ends.size() > 2) refuse("--nnodes is '" + text + "'", "give a number of nodes, as in --nnodes 2, or MIN:MAX");
  plan.min_nodes = static_cast<int>(parse_whole("--nnodes", ends.front(), 1, kMostRanks));
  plan.nodes = static_cast<int>(parse_whole("--nnodes", ends.back(), 1, kMostRanks));
  if (plan.min_nodes > plan.nodes) refuse("--nnodes is '" + text + "'", "give MIN:MAX, the smaller number first");
}

int local_ranks_of(const std::string& text) {
  const int gpus = visible_gpus();
  if (text == "cpu" || (text == "auto" && gpus == 0)) return available_cores();
  if (text == "auto") return gpus;
  if (text == "gpu") {
    if (gpus == 0) refuse("--nproc-per-node is gpu, but this node has no visible GPU", "give a number, or cpu");
    return gpus;
  }
  if (!text.empty() && text.find_first_not_of("0123456789") != std::string::npos) {
    refuse("--nproc-per-node is '" + text + "'", "give a number, auto, cpu or gpu");
  }
  return static_cast<int>(parse_whole("--nproc-per-node", text, 1, kMostRanks));
}

bool parse_switch(const std::string& flag, const std::string& text) {
  if (text == "1" || text == "true" || text == "True") return true;
  if (text == "0" || text == "false" || text == "False") return false;
  refuse(flag + " is '" + text + "'", "give true or false");
}

// Settings that need a rendezvous at which nodes join and leave are refused otherwise, not ignored.
void read_rendezvous_settings(LaunchPlan& plan, const std::string& text) {
  const bool elastic = plan.node_ranks == NodeRanks::ByArrival;
  double interval = kKeepAliveInterval;
  double attempts = elastic ? kKeepAliveAttempts : kKeepAliveAttemptsOfFixedNodes;
  for (const std::string& setting : text.empty() ? std::vector<std::string>() : split(text, ',')) {
    const std::size_t equals = setting.find('=');
    const std::string key = setting.substr(0, equals);
    if (equals == std::string::npos) refuse("--rdzv-conf has '" + setting + "'", "give KEY=VALUE,KEY=VALUE,...");
    const std::string value = setting.substr(equals + 1);
    const std::string flag = "--rdzv-conf " + key;
    if (key == "timeout" || key == "join_timeout") {
      plan.join_timeout = milliseconds(parse_seconds(flag, value));
    } else if (key == "is_host") {
      plan.serves_store = parse_switch(flag, value);
    } else if (key == "rank" && !elastic) {
      plan.node_rank = static_cast<int>(parse_whole(flag, value, 0, plan.nodes - 1));
    } else if (key == "last_call_timeout" && elastic) {
      plan.last_call = milliseconds(parse_seconds(flag, value, true));
    } else if (key == "keep_alive_interval") {
      interval = parse_seconds(flag, value);
    } else if (key == "keep_alive_max_attempt") {
      attempts = static_cast<double>(parse_whole(flag, value, 1, 1000));
    } else {
      refuse("--rdzv-conf has '" + key + "', which is not supported",
             elastic ? "use join_timeout, last_call_timeout, keep_alive_interval, keep_alive_max_attempt or is_host"
                     : "use timeout, join_timeout, keep_alive_interval, keep_alive_max_attempt, is_host or rank; with "
                       "--rdzv-backend c10d there is last_call_timeout, too");
    }
  }
  plan.keep_alive = milliseconds(interval * attempts);
}

// "host", "host:port", "[::1]:port"; an IPv6 address without brackets has no port.
void read_endpoint(LaunchPlan& plan, const std::string& text) {
  const std::size_t bracket = text.find(']');
  const std::size_t colon = text.find(':', bracket == std::string::npos ? 0 : bracket);
  const bool has_port = colon != std::string::npos && (bracket != std::string::npos || colon == text.rfind(':'));
  plan.master_addr = has_port ? text.substr(0, colon) : text;
  if (plan.master_addr.empty()) refuse("--rdzv-endpoint is '" + text + "'", "give HOST or HOST:PORT");
  if (has_port) {
    plan.master_port =
        static_cast<std::uint16_t>(parse_whole("--rdzv-endpoint port", text.substr(colon + 1), 0, 65535));
  }
}

// Only c10d lets nodes join and leave, and numbers them itself.
std::string backend_of(const LaunchPlan& plan, const LaunchFlags& flags) {
  if (plan.min_nodes == plan.nodes) return flags.rdzv_backend;
  const std::string range = "--nnodes " + flags.nnodes;
  if (flags.rdzv_backend_given && flags.rdzv_backend != "c10d") {
    refuse("--rdzv-backend " + flags.rdzv_backend + " cannot be combined with " + range,
           "use c10d, or a fixed number of nodes");
  }
  if (flags.node_rank_given) {
    refuse("--node-rank cannot be combined with " + range + ": nodes that join and leave are numbered as they arrive",
           "leave out --node-rank; --rdzv-conf is_host=true says which one serves");
  }
  return "c10d";
}

void plan_meeting(LaunchPlan& plan, const LaunchFlags& flags) {
  plan.join_timeout = milliseconds(kJoinTimeoutSeconds);
  plan.last_call = milliseconds(kLastCallSeconds);
  plan.master_addr = flags.master_addr;
  plan.run_id = flags.rdzv_id;
  plan.node_rank = static_cast<int>(parse_whole("--node-rank", flags.node_rank, 0, plan.nodes - 1));
  if (flags.standalone) {
    if (plan.nodes != 1)
      refuse("--standalone cannot be combined with --nnodes " + flags.nnodes, "leave out one of them");
    plan.master_addr = "127.0.0.1";
    plan.run_id = fmt::format("{:016x}", random_bits());
    return;
  }
  const std::string backend = backend_of(plan, flags);
  if (!flags.master_port.empty()) {
    plan.master_port = static_cast<std::uint16_t>(parse_whole("--master-port", flags.master_port, 0, 65535));
  } else if (plan.nodes > 1) {
    plan.master_port = backend == "c10d" ? kC10dPort : kStaticPort;
  }
  if (backend == "c10d") {
    plan.node_ranks = flags.node_rank_given ? NodeRanks::Given : NodeRanks::ByArrival;
  } else if (backend != "static") {
    refuse("--rdzv-backend is '" + backend + "', which is not supported", "use static or c10d");
  }
  if (!flags.rdzv_endpoint.empty()) read_endpoint(plan, flags.rdzv_endpoint);
  read_rendezvous_settings(plan, flags.rdzv_conf);
  if (plan.nodes > 1 && plan.master_port == 0) {
    refuse("port 0 cannot be combined with --nnodes " + flags.nnodes + ": the other nodes could not find this one",
           "give --master-port a number that is free on node 0");
  }
  if (plan.master_addr.empty()) refuse("--master-addr is empty", "give the address of node 0");
}

void plan_times(LaunchPlan& plan, const LaunchFlags& flags) {
  plan.max_restarts = static_cast<int>(parse_whole("--max-restarts", flags.max_restarts, 0, 1000000));
  plan.monitor_interval = milliseconds(parse_seconds("--monitor-interval", flags.monitor_interval));
  plan.grace_after_failure = std::chrono::milliseconds(900);
  plan.grace_after_signal = std::chrono::seconds(30);
  if (!flags.shutdown_timeout.empty()) {
    plan.grace_after_failure = milliseconds(parse_seconds("--shutdown-timeout", flags.shutdown_timeout, true));
    plan.grace_after_signal = plan.grace_after_failure;
  }
  if (!flags.timeout.empty()) {
    parse_whole("--timeout", flags.timeout, 1, 365 * 24 * 3600);
    plan.collective_timeout_s = flags.timeout;
  }
}

void plan_trace(LaunchPlan& plan, const LaunchFlags& flags) {
  if (flags.trace.empty()) {
    if (flags.trace_steps.empty()) return;
    refuse("--trace-steps needs --trace", "name the trace's file with --trace");
  }
  plan.trace_file = std::filesystem::absolute(flags.trace).string();
  plan.trace_steps = flags.trace_steps;
  if (!flags.trace_steps.empty()) trace_window(flags.trace_steps);  // refused here, not by every rank
}

CpuAffinity affinity_of(const std::string& text) {
  if (text == "none") return CpuAffinity::None;
  if (text == "split") return CpuAffinity::Split;
  if (text == "auto") return CpuAffinity::Auto;
  refuse("--cpu-affinity is '" + text + "'", "use none, split or auto");
}

std::vector<std::string> command_of(const LaunchFlags& flags) {
  if (flags.command.empty()) {
    refuse("there is no program to run", "name it after the flags: lockstep run --nproc-per-node 2 ./train --epochs 3");
  }
  if (flags.no_python && flags.module) refuse("--no-python cannot be combined with --module", "leave out one of them");
  const bool is_script = !flags.no_python && ends_with(flags.command.front(), ".py");
  if (!flags.module && !flags.run_path && !is_script) return flags.command;
  // -u as torchrun does, so that a Python program's output appears at once.
  std::vector<std::string> command{env_string("PYTHON_EXEC").value_or("python3"), "-u"};
  if (flags.module) command.emplace_back("-m");
  command.insert(command.end(), flags.command.begin(), flags.command.end());
  return command;
}

}  // namespace

bool LaunchPlan::wants_log_files() const {
  const auto any = [](Streams streams) { return streams.out || streams.err; };
  return std::any_of(redirects.begin(), redirects.end(), any) || std::any_of(tee.begin(), tee.end(), any);
}

bool LaunchPlan::may_start_again(int restarts) const {
  const bool hosts_change = node_ranks == NodeRanks::ByArrival && nodes > 1;
  // A fixed number of hosts and no restarts: the job ends with a lost host.
  return restarts < max_restarts || (hosts_change && (min_nodes < nodes || max_restarts > 0));
}

LaunchPlan make_plan(const LaunchFlags& flags) {
  LaunchPlan plan;
  read_nodes(plan, flags.nnodes);
  plan.local_ranks = local_ranks_of(flags.nproc_per_node);
  plan_meeting(plan, flags);
  plan_times(plan, flags);
  plan_trace(plan, flags);
  if (flags.ranks_as != "processes")
    refuse("--ranks-as is '" + flags.ranks_as + "', but a program that is started is a process",
           "use processes; ranks as threads are made by the program itself, with lockstep::spawn");
  plan.role = flags.role;
  plan.log_dir = flags.log_dir;
  plan.redirects = parse_streams("--redirects", flags.redirects, plan.local_ranks);
  plan.tee = parse_streams("--tee", flags.tee, plan.local_ranks);
  plan.shown = parse_rank_filter("--local-ranks-filter", flags.local_ranks_filter, plan.local_ranks);
  plan.affinity = affinity_of(flags.cpu_affinity);
  plan.command = command_of(flags);
  if (flags.warm_spares && !plan.may_start_again(0)) {
    refuse("--warm-spares needs --max-restarts", "give --max-restarts: without it no rank is ever started again");
  }
  plan.warm_spares = flags.warm_spares;
  if (plan.warm_spares) check_spares_are_possible(find_program(plan.command.front()));
  plan.program_word = plan.command.size() - flags.command.size();
  return plan;
}

}  // namespace lockstep
