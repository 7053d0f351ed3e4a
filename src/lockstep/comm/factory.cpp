#include "lockstep/comm/factory.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/text/nearest_name.h"
#if LOCKSTEP_HAS_GLOO
#include "lockstep/comm/gloo/gloo.h"
#endif
#include "lockstep/comm/hierarchical/hierarchical.h"
#include "lockstep/comm/hierarchical/host_layout.h"
#if LOCKSTEP_HAS_MPI
#include "lockstep/comm/mpi/mpi.h"
#endif
#if LOCKSTEP_HAS_NCCL
#include "lockstep/comm/nccl/nccl.h"
#endif
#include "lockstep/comm/shm/shm.h"
#include "lockstep/comm/single.h"
#include "lockstep/comm/tcp/tcp.h"
#include "lockstep/net/launcher_environment.h"

namespace lockstep {
namespace {

bool in_one_process(const Membership& membership) {
  return membership.on_one_host() &&
         std::all_of(membership.peers.begin(), membership.peers.end(),
                     [&](const Peer& peer) { return peer.pid == membership.peers.front().pid; });
}

bool in_processes_of_their_own(const Membership& membership) {
  for (std::size_t i = 0; i < membership.peers.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Peer& a = membership.peers[i];
      const Peer& b = membership.peers[j];
      if (a.host_id == b.host_id && a.pid == b.pid) return false;
    }
  }
  return true;
}

bool can_serve(const Engine& engine, const Membership& membership) {
  if (!engine.across_hosts && !membership.on_one_host()) return false;
  if (engine.fits != nullptr && !engine.fits(membership)) return false;
  if (engine.threads && in_one_process(membership)) return true;
  return engine.across_processes && (engine.threads || in_processes_of_their_own(membership));
}

void throw_if_missing(const std::string& engine, const Membership& membership) {
  for (const MissingEngine& missing : missing_engines()) {
    if (missing.name != engine) continue;
    throw Error(fmt::format("engine {}: not built: {}", missing.name, missing.reason), membership.where(),
                "build Lockstep where it is (docs/building.md), or choose another engine");
  }
}

std::string names() {
  std::string text;
  for (const Engine& engine : available_engines()) text += (text.empty() ? "" : ", ") + std::string(engine.name);
  return text;
}

// Connects the group. A failure of a peer is recorded here as in an operation, because a program may catch it.
std::unique_ptr<Communicator> connect(const Engine& engine, Membership membership) {
  const bool is_part = membership.is_part();
  const std::string where = fmt::format("{}, engine {}", membership.where(), engine.name);
  try {
    return engine.make(std::move(membership));
  } catch (const Error& error) {
    if (cause_of(error) == nullptr) throw;
    if (!is_part) record_failure(error);
    std::rethrow_exception(moved_to(error, where));
  }
}

}  // namespace

const std::vector<Engine>& available_engines() {
  static const std::vector<Engine> engines = {
    {"thread", "shared memory between threads of one process", false, false, true, nullptr, &make_thread_communicator},
    {"shm", "shared memory between processes of one host", false, true, false, nullptr, &make_shm_communicator},
    {"hierarchical", "shared memory inside hosts, another engine between hosts with several ranks each", true, true,
     true, &spans_hosts_of_several_ranks, &make_hierarchical_communicator},
    {"tcp", "TCP between processes or threads, on one or several hosts, authenticated by the job's secret", true, true,
     true, nullptr, &make_tcp_communicator},
#if LOCKSTEP_HAS_GLOO
    {"gloo", "TCP by the library Gloo, for networks without strangers", true, true, true, nullptr,
     &make_gloo_communicator},
#endif
#if LOCKSTEP_HAS_MPI
    {"mpi", "MPI's messages between processes that mpirun started", true, true, false, nullptr, &make_mpi_communicator},
#endif
#if LOCKSTEP_HAS_NCCL
    {"nccl", "NCCL between CUDA devices, one of each rank, on one or several hosts", true, true, true, nullptr,
     &make_nccl_communicator, c10::DeviceType::CUDA},
#endif
  };
  return engines;
}

const std::vector<MissingEngine>& missing_engines() {
  static const std::vector<MissingEngine> missing = {
#if !LOCKSTEP_HAS_GLOO
    {"gloo", "libgloo-dev was not installed"},
#endif
#if !LOCKSTEP_HAS_MPI
    {"mpi", "libopenmpi-dev was not installed"},
#endif
#if !LOCKSTEP_HAS_NCCL
    {"nccl", LOCKSTEP_NCCL_MISSING},
#endif
  };
  return missing;
}

std::string default_engine(const Membership& membership) {
  for (const Engine& engine : available_engines()) {
    if (engine.device == c10::DeviceType::CPU && can_serve(engine, membership)) return engine.name;
  }
  throw Error(fmt::format("none of this build's engines ({}) can serve {} ranks placed as these are", names(),
                          membership.world_size),
              membership.where(), "start one process per rank, or build with another engine");
}

void prepare_rendezvous([[maybe_unused]] Deadline deadline) {
#if LOCKSTEP_HAS_MPI
  if (!mpi_job() || env_string("MASTER_ADDR") || env_string("LOCKSTEP_STORE")) return;
  const auto size = env_int("WORLD_SIZE");
  if (!size || *size == 1 || env_int("LOCAL_WORLD_SIZE") == size) return;  // on one host a socket's name is enough
  meet_by_mpi(deadline);
#endif
}

std::unique_ptr<Communicator> make_communicator(const std::string& engine, Membership membership) {
  const auto& engines = available_engines();
  const std::string name = engine.empty() && membership.world_size > 1 ? default_engine(membership) : engine;
  const auto found = std::find_if(engines.begin(), engines.end(), [&](const Engine& e) { return e.name == name; });
  if (found == engines.end()) throw_if_missing(name, membership);
  if (found == engines.end() && !(name.empty() || name == "single")) {
    std::vector<std::string> known;
    for (const Engine& each : engines) known.emplace_back(each.name);
    throw Error(
        fmt::format("engine \"{}\" is not in this build, which has: {}{}", name, names(), did_you_mean(name, known)),
        membership.where(), "choose one of these, or rebuild where its library is installed");
  }
  const bool for_device = found != engines.end() && found->device != c10::DeviceType::CPU;
  if (membership.world_size == 1 && !for_device) return make_single_communicator(std::move(membership));
  if (name == "single") {
    throw Error(fmt::format("engine \"single\" serves one rank, not {}", membership.world_size), membership.where(),
                "choose one of: " + names());
  }
  if (!can_serve(*found, membership)) {
    throw Error(
        fmt::format("engine \"{}\" ({}) cannot serve these {} ranks", name, found->description, membership.world_size),
        membership.where(), "leave the engine out to get one that can: " + default_engine(membership));
  }
  return connect(*found, std::move(membership));
}

std::unique_ptr<Communicator> make_companion(Membership membership, c10::Device device) {
  if (membership.world_size == 1) return make_single_communicator(std::move(membership), device);
  if (device.is_cpu()) return make_communicator("", std::move(membership));
  return make_communicator("nccl", std::move(membership));
}

}  // namespace lockstep
