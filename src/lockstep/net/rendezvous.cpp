#include "lockstep/net/rendezvous.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/net/environment/env_address.h"
#include "lockstep/net/environment/init_method.h"
#include "lockstep/net/meeting_file.h"
#include "lockstep/net/secret.h"
#include "lockstep/net/slow_joining.h"
#include "lockstep/net/sockets/host_address.h"
#include "lockstep/net/sockets/runtime_folder.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/start_line.h"
#include "lockstep/net/store/job_store.h"
#include "lockstep/net/store_errors.h"
#include "lockstep/net/thread_ranks.h"
#include "lockstep/net/worlds/moving_store.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

// Time to find out which process occupies the address where this rank should serve. Long enough for a store on a busy
// host; a silent stranger delays the error by this time.
constexpr milliseconds kProbeTime{5000};
// Time for one attempt at a meeting point that may belong to an ended job.
constexpr milliseconds kOneAttempt{1000};
constexpr milliseconds kPauseBetweenReads{50};
// Time for the other ranks to get an error before the store ends.
constexpr milliseconds kFarewell{2000};

class Rendezvous {
 public:
  Rendezvous(const RendezvousOptions& options, InitMethod method)
      : options_(options),
        method_(std::move(method)),
        deadline_(Deadline::after(options.join_timeout.value_or(options.timeout))) {
    request_.world_size = number("WORLD_SIZE", "world_size", options.world_size, method_.world_size);
    request_.self.global_rank = number("RANK", "rank", options.rank, method_.rank);
    // A new world may be formed without a restart that counts.
    const auto restarts = env_int("TORCHELASTIC_RESTART_COUNT");
    request_.generation = env_int("LOCKSTEP_GENERATION").value_or(restarts.value_or(0));
    request_.self.host = host_name();
    request_.self.host_id = host_id();
    request_.self.pid = ::getpid();
    request_.self.local_rank = static_cast<int>(env_int("LOCAL_RANK").value_or(-1));
    where_ = fmt::format("rank {} of {} on {}", rank(), request_.world_size, request_.self.host);
    if (request_.world_size < 1 || rank() < 0 || rank() >= request_.world_size) {
      throw Error(fmt::format("rank {} does not fit into a world of {}", rank(), request_.world_size), where_,
                  "give each process its own rank from 0 to world_size - 1");
    }
  }

  Membership run() {
    const auto served = is_served_by_launcher() ? env_string("LOCKSTEP_STORE") : std::nullopt;
    if (!served && request_.world_size == 1) return alone();
    if (options_.on_awaiting) options_.on_awaiting("Awaiting all nodes to join.");
    if (served) return join_at({SocketAddress::parse(*served), secret_from_environment()}, nullptr, {});
    if (method_.kind == InitMethod::Kind::File) return rank() == 0 ? serve_by_file() : join_by_file();
    const SocketAddress address =
        method_.kind == InitMethod::Kind::Tcp ? method_.address : address_from_environment(request_.world_size);
    const MeetingPoint point{address, secret_from_environment()};
    return rank() == 0 ? serve_and_join(point, {}) : join_at(point, nullptr, {});
  }

 private:
  int rank() const { return request_.self.global_rank; }
  bool is_served_by_launcher() const {
    return method_.kind == InitMethod::Kind::Env && env_string("LOCKSTEP_STORE").has_value();
  }

  // The argument precedes the init method, which precedes the environment, as in PyTorch.
  static int number(const char* variable, const char* argument, std::optional<int> given,
                    std::optional<int> in_method) {
    if (given) return *given;
    if (in_method) return *in_method;
    if (const auto value = env_int(variable)) return static_cast<int>(std::clamp<std::int64_t>(*value, -1, 1 << 30));
    throw Error(fmt::format("{} is not known: {} is not set", argument, variable), "rendezvous on " + host_name(),
                fmt::format("start its ranks together: {} (torchrun, mpirun and srun do, too); or set {}, or pass {}",
                            start_line(), variable, argument));
  }

  // A world of one rank opens no socket.
  Membership alone() const { return thread_memberships(1, options_.timeout).front(); }

  std::shared_ptr<StoreClient> connect(const MeetingPoint& point, Deadline deadline) const {
    StoreClientOptions options;
    options.where = where_;
    return std::make_shared<StoreClient>(point.address, point.secret, deadline, options);
  }

  Membership serve_and_join(const MeetingPoint& point, std::function<void()> on_finish) {
    std::shared_ptr<StoreServer> server;
    try {
      server = std::make_shared<StoreServer>(point.address, point.secret);
    } catch (const AddressInUseError&) {
      object_to_second_claim(point);
      throw;
    }
    return join_at({server->address(), point.secret}, server, std::move(on_finish));
  }

  // Another process already occupies the address where this rank should serve. If it is a store of this job, a second
  // process claims rank 0: joining there reports the error to both. In all other cases the caller's error is thrown.
  void object_to_second_claim(const MeetingPoint& point) const {
    const Deadline probe = Deadline::after(std::min(kProbeTime, deadline_.remaining()));
    std::shared_ptr<StoreClient> client;
    try {
      // The address in a crashed job's file is deserted: a rank 0 listens at its address before it publishes it.
      if (connect_once(point.address, point.secret.empty(), probe).refused) return;
      client = connect(point, probe);
    } catch (const Error&) {
      return;
    }
    try {
      client->join(request_, Deadline::after(std::min(kProbeTime, deadline_.remaining())));
    } catch (const TimeoutError&) {
    } catch (const StoreLostError&) {
    }
  }

  Membership join_at(const MeetingPoint& point, std::shared_ptr<StoreServer> server, std::function<void()> on_finish) {
    const std::shared_ptr<StoreClient> client = connect(point, deadline_);
    JoinResult joined;
    try {
      const SlowJoining notice(where_, point.address.text(), request_.world_size, deadline_);
      joined = client->join(request_, deadline_);
    } catch (const Error&) {
      client->finish(Deadline::after(kFarewell));
      if (server) server->wait_until_left(Deadline::after(kFarewell));  // the others get this error too
      throw;
    }
    return membership(std::move(joined), std::move(server), client, std::move(on_finish));
  }

  Membership serve_by_file() {
    const MeetingFile file(method_.path);
    if (const auto before = file.read(deadline_)) object_to_second_claim(*before);
    const MeetingPoint wanted{address_beside(file), make_secret()};
    const auto server = std::make_shared<StoreServer>(wanted.address, wanted.secret);
    const MeetingPoint point{server->address(), wanted.secret};
    file.publish(point, deadline_);
    return join_at(point, server, [file, point] { remove_quietly(file, point); });
  }

  static void remove_quietly(const MeetingFile& file, const MeetingPoint& point) {
    try {
      file.remove(point, Deadline::after(kFarewell));
    } catch (const Error& error) {
      log_info("{}", error.happened());  // a file that remains does no harm
    }
  }

  // Only this host sees a local file, so a Unix socket is enough; otherwise an address that other hosts can reach.
  SocketAddress address_beside(const MeetingFile& file) const {
    if (!file.on_local_file_system()) return SocketAddress::tcp(address_for_other_hosts(deadline_), 0);
    constexpr std::size_t kLongestSocketPath = 107;
    const std::string beside = file.path() + ".socket";
    if (beside.size() <= kLongestSocketPath) return SocketAddress::unix_socket(beside);
    return SocketAddress::unix_socket(private_runtime_folder() + "/" + unique_socket_name({file.path()}));
  }

  Membership join_by_file() {
    const MeetingFile file(method_.path);
    std::string failure = "the file does not exist, or rank 0 has not written it yet";
    while (!deadline_.passed()) {
      if (const auto point = file.read(deadline_)) {
        try {
          return join_found(*point);
        } catch (const StoreLostError& error) {
          failure = error.happened();
        } catch (const Unreachable& unreachable) {
          failure = unreachable.cause;
        }
      }
      std::this_thread::sleep_for(std::min(kPauseBetweenReads, deadline_.remaining()));
    }
    throw TimeoutError(
        fmt::format("rank 0 did not publish its address in the rendezvous file {}; last: {}", file.path(), failure),
        where_, "check that rank 0 runs, with the same path, and on a file system that both see");
  }

  struct Unreachable {
    std::string cause;
  };

  // The content of the file may be left from a crashed job: then no process answers, or one with another secret does.
  Membership join_found(const MeetingPoint& point) {
    std::shared_ptr<StoreClient> client;
    try {
      client = connect(point, Deadline::after(std::min(kOneAttempt, deadline_.remaining())));
    } catch (const Error& error) {
      throw Unreachable{error.happened()};
    }
    const SlowJoining notice(where_, point.address.text(), request_.world_size, deadline_);
    return membership(client->join(request_, deadline_), nullptr, client, {});
  }

  Membership membership(JoinResult joined, std::shared_ptr<StoreServer> server, std::shared_ptr<StoreClient> client,
                        std::function<void()> on_finish) const {
    Membership result;
    result.rank = rank();
    result.world_size = request_.world_size;
    result.peers = std::move(joined.peers);
    assign_local_ranks(result.peers);
    result.timeout = options_.timeout;
    result.join_timeout = options_.join_timeout;
    const std::string prefix = fmt::format("g{}.r{}/{}", request_.generation, joined.round, result.group);
    std::shared_ptr<Store> store = client;
    if (const auto file = env_string("LOCKSTEP_STORE_FILE"); file && is_served_by_launcher()) {
      store = std::make_shared<MovingStore>(std::move(client), request_, joined.round, *file);
    }
    result.store = std::make_shared<JobStore>(std::move(server), std::move(store), prefix, std::move(on_finish));
    return result;
  }

  // LOCAL_RANK is used if it is set and unique among the ranks of a host; otherwise local ranks follow the ranks.
  static void assign_local_ranks(std::vector<Peer>& peers) {
    std::map<std::string, std::set<int>> given;
    std::map<std::string, int> counted;
    for (const Peer& peer : peers) {
      ++counted[peer.host_id];
      if (peer.local_rank >= 0) given[peer.host_id].insert(peer.local_rank);
    }
    std::map<std::string, int> next;
    for (Peer& peer : peers) {
      const int number = next[peer.host_id]++;
      if (static_cast<int>(given[peer.host_id].size()) != counted[peer.host_id]) peer.local_rank = number;
    }
  }

  const RendezvousOptions& options_;
  const InitMethod method_;
  const Deadline deadline_;
  JoinRequest request_;
  std::string where_;
};

}  // namespace

Membership rendezvous(const RendezvousOptions& options) {
  try {
    Membership membership = Rendezvous(options, InitMethod::parse(options.init_method)).run();
    record_failures_as(membership.rank);
    return membership;
  } catch (const TimeoutError& error) {
    throw_caused(error, {FailureCause::Kind::Timeout, -1});
  }
}

}  // namespace lockstep
