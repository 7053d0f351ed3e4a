#include "lockstep/launch/nodes/host_entry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "lockstep/base/processor/topology.h"
#include "lockstep/launch/nodes/launcher_message.h"
#include "lockstep/launch/process/child_process.h"
#include "lockstep/net/hmac.h"
#include "lockstep/version.h"

namespace lockstep {
namespace {

// Empty if the program is not a file, such as a Python module: then there is nothing to compare.
std::string digest_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return "";
  const std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  constexpr std::size_t kDigits = 16;
  return to_hex(hmac_sha256("lockstep program", {content})).substr(0, kDigits);
}

std::string differ(const HostEntry& a, const HostEntry& b, const std::string& what, const std::string& of_a,
                   const std::string& of_b) {
  const bool one_host = a.name == b.name;
  return fmt::format("{} has {} {}, {} has {}", one_host ? b.label() : b.name, what, of_b,
                     one_host ? a.label() : a.name, of_a);
}

std::string differ(const HostEntry& a, const HostEntry& b, const std::string& what, int of_a, int of_b) {
  return differ(a, b, what, std::to_string(of_a), std::to_string(of_b));
}

std::string nodes_text(const HostEntry& entry) {
  return entry.min_nodes == entry.max_nodes ? std::to_string(entry.max_nodes)
                                            : fmt::format("{}:{}", entry.min_nodes, entry.max_nodes);
}

std::string backend_text(const HostEntry& entry) {
  return entry.ranks_given ? "static, or --node-rank" : "c10d without --node-rank";
}

}  // namespace

std::string HostEntry::label() const { return fmt::format("{} (pid {})", name, pid); }

HostEntry HostEntry::of(const LaunchPlan& plan) {
  HostEntry entry;
  constexpr std::size_t kIdBytes = 8;
  entry.id = to_hex(random_bytes(kIdBytes));
  entry.name = host_name();
  entry.pid = ::getpid();
  entry.local_ranks = plan.local_ranks;
  entry.min_nodes = plan.min_nodes;
  entry.max_nodes = plan.nodes;
  entry.max_restarts = plan.max_restarts;
  entry.ranks_given = plan.node_ranks == NodeRanks::Given;
  entry.run_id = plan.run_id;
  entry.version = LOCKSTEP_VERSION;
  entry.program = plan.command.at(plan.program_word);
  // An interpreter finds its script by the path only.
  entry.program_digest = digest_of_file(plan.program_word == 0 ? find_program(entry.program) : entry.program);
  entry.rest.assign(plan.command.begin() + static_cast<std::ptrdiff_t>(plan.program_word) + 1, plan.command.end());
  return entry;
}

void to_json(nlohmann::json& json, const HostEntry& entry) {
  json = {{"id", entry.id},
          {"name", entry.name},
          {"pid", entry.pid},
          {"standby", entry.standby},
          {"local_ranks", entry.local_ranks},
          {"min_nodes", entry.min_nodes},
          {"max_nodes", entry.max_nodes},
          {"max_restarts", entry.max_restarts},
          {"ranks_given", entry.ranks_given},
          {"run_id", entry.run_id},
          {"version", entry.version},
          {"program", entry.program},
          {"program_digest", entry.program_digest},
          {"rest", entry.rest}};
}

void from_json(const nlohmann::json& json, HostEntry& entry) {
  json.at("id").get_to(entry.id);
  json.at("name").get_to(entry.name);
  json.at("pid").get_to(entry.pid);
  json.at("standby").get_to(entry.standby);
  json.at("local_ranks").get_to(entry.local_ranks);
  json.at("min_nodes").get_to(entry.min_nodes);
  json.at("max_nodes").get_to(entry.max_nodes);
  json.at("max_restarts").get_to(entry.max_restarts);
  json.at("ranks_given").get_to(entry.ranks_given);
  json.at("run_id").get_to(entry.run_id);
  json.at("version").get_to(entry.version);
  json.at("program").get_to(entry.program);
  json.at("program_digest").get_to(entry.program_digest);
  json.at("rest").get_to(entry.rest);
}

HostEntry host_entry_of(const nlohmann::json& json) {
  try {
    return json.get<HostEntry>();
  } catch (const nlohmann::json::exception&) {
    HostEntry entry;
    json.at("id").get_to(entry.id);
    json.at("name").get_to(entry.name);
    entry.pid = json.value("pid", 0);
    entry.version = json.value("version", std::string("of another version"));
    if (entry.version == LOCKSTEP_VERSION) entry.version += ", of another build";
    return entry;
  }
}

HostEntry parse_host_entry(const std::string& text) {
  return read_launcher_message(text, "what another launcher says of itself", host_entry_of);
}

std::optional<std::string> other_job(const HostEntry& job, const HostEntry& other) {
  if (job.version != other.version) return differ(job, other, "Lockstep", job.version, other.version);
  if (job.run_id != other.run_id) return differ(job, other, "--rdzv-id", job.run_id, other.run_id);
  if (job.ranks_given != other.ranks_given) {
    return differ(job, other, "--rdzv-backend", backend_text(job), backend_text(other));
  }
  return std::nullopt;
}

std::optional<std::string> difference(const HostEntry& job, const HostEntry& other) {
  if (auto reason = other_job(job, other)) return reason;
  if (job.min_nodes != other.min_nodes || job.max_nodes != other.max_nodes) {
    return differ(job, other, "--nnodes", nodes_text(job), nodes_text(other));
  }
  if (job.max_restarts != other.max_restarts) {
    return differ(job, other, "--max-restarts", job.max_restarts, other.max_restarts);
  }
  if (!job.program_digest.empty() && !other.program_digest.empty() && job.program_digest != other.program_digest) {
    return differ(job, other, "another build of the program:", fmt::format("{} ({})", job.program, job.program_digest),
                  fmt::format("{} ({})", other.program, other.program_digest));
  }
  if (job.rest != other.rest) {
    return differ(job, other, "the program's arguments", fmt::format("'{}'", fmt::join(job.rest, " ")),
                  fmt::format("'{}'", fmt::join(other.rest, " ")));
  }
  return std::nullopt;
}

}  // namespace lockstep
