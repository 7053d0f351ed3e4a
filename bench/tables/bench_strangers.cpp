// `lockstep bench strangers`: what a job notices of connections by the thousand from programs without its secret.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/measure/benchmark.h"
#include "bench/measure/job_process.h"
#include "bench/measure/measurement.h"
#include "bench/measure/recorded_client.h"
#include "bench/measure/strangers.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/net/secret.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/store/store_client.h"
#include "tools/frame/companion.h"
#include "tools/frame/scratch_folder.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

Deadline a_minute() { return Deadline::after(std::chrono::minutes(1)); }

std::uint16_t free_port() { return listen_at(SocketAddress::tcp("127.0.0.1", 0), a_minute()).address.port; }

void create(const std::string& file) {
  if (!std::ofstream(file)) throw Error("cannot write a file", file, "set TMPDIR to a folder that you may write to");
}

std::int64_t resident_bytes(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/statm", process));
  std::int64_t size = 0;
  std::int64_t resident = 0;
  file >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// Two launchers of this host, which stand for two hosts.
class TwoNodes {
 public:
  TwoNodes(int ranks_per_node, const Words& program) : port_(free_port()) {
    for (int node = 0; node < 2; ++node) {
      Words words{companion_program("lockstep"), "run", "--nnodes", "2", "--node-rank", std::to_string(node)};
      words.insert(words.end(), {"--master-port", std::to_string(port_)});
      words.insert(words.end(), {"--nproc-per-node", std::to_string(ranks_per_node)});
      words.insert(words.end(), program.begin(), program.end());
      nodes_.push_back(std::make_unique<JobProcess>(words));
    }
  }

  SocketAddress store() const { return SocketAddress::tcp("127.0.0.1", port_); }
  std::vector<pid_t> launchers() const { return {nodes_[0]->pid(), nodes_[1]->pid()}; }

  struct Result {
    long steps = 0;
    std::string digest;  // of the weights
  };
  Result result() {
    Result result;
    char digest[17] = "";
    while (std::sscanf(nodes_[0]->next_line().c_str(), "steps %ld digest %16s", &result.steps, digest) != 2) {
    }
    result.digest = digest;
    return result;
  }

 private:
  const std::uint16_t port_;
  std::vector<std::unique_ptr<JobProcess>> nodes_;  // the first one serves the store
};

// A member of the job that calls its store all the time.
class CallingMember {
 public:
  CallingMember(const SocketAddress& store, const std::string& secret) : client_(store, secret, a_minute()) {
    thread_ = std::thread([this] { call(); });
  }
  ~CallingMember() { stop(); }

  /// Milliseconds of each call, sorted. @throws Error  why a call failed
  std::vector<double> stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
    if (failure_) std::rethrow_exception(failure_);
    std::sort(times_ms_.begin(), times_ms_.end());
    return times_ms_;
  }

 private:
  void call() {
    try {
      while (!stopping_) {
        const auto begin = Clock::now();
        client_.add("bench/strangers/calls", 1);
        times_ms_.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
      }
      client_.finish(a_minute());
    } catch (const std::exception&) {
      failure_ = std::current_exception();
    }
  }

  StoreClient client_;
  std::vector<double> times_ms_;
  std::exception_ptr failure_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

struct Attack {
  std::int64_t connections = 0;
  std::int64_t while_forming = 0;
  std::size_t ports = 0;
  std::size_t held_at_once = 0;
  double seconds = 0;
  std::vector<double> calls_ms;  // sorted
  std::int64_t grown_bytes = 0;  // memory of the process that serves the store
  TwoNodes::Result result;
};

class BenchStrangers : public Benchmark {
 public:
  void add(CLI::App& app) override {
    app.add_option("--connections", connections_,
                   "connections that strangers make, a fifth of them while the job forms")
        ->capture_default_str()
        ->check(CLI::Range(100, 10'000'000));
    app.add_option("--nproc-per-node,--ranks", ranks_, "ranks on each of two hosts, for which two launchers stand")
        ->capture_default_str()
        ->check(CLI::Range(1, 32));
    app.add_flag("--json", json_, "print a JSON object");
    show_examples(app, {"lockstep bench strangers", "lockstep bench strangers --connections 10000 --json"});
  }

  int run() override {
    for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) ::setenv(name, "1", 1);
    ::setenv("LOCKSTEP_SECRET", secret_.c_str(), 1);
    const Attack attack = attacked();
    const TwoNodes::Result alone = undisturbed(attack.result.steps);
    if (alone.digest != attack.result.digest) {
      throw Error(fmt::format("after {} steps the weights' digest is {} among strangers and {} without them",
                              alone.steps, attack.result.digest, alone.digest),
                  "bench strangers", "this is a bug: report it");
    }
    report(attack);
    return 0;
  }

 private:
  Words worker(const std::string& start_file, const Words& more) const {
    Words words{companion_program("lockstep-strangers-worker"), "--start-file", start_file};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Attack attacked() const {
    const ScratchFolder folder("lockstep-strangers");
    TwoNodes job(ranks_, worker(folder / "start", {"--stop-file", folder / "stop"}));
    CallingMember member(job.store(), secret_);
    const RecordedClient recorded = record_client(job.store(), secret_);
    const std::int64_t before = resident_bytes(job.launchers().front());
    const auto begin = Clock::now();
    Attack attack;
    {
      Strangers strangers(job.launchers(), recorded);
      // The store's port, and that of each rank but the last one: it connects to all others, so nobody waits for it and
      // its own port is seen by chance.
      strangers.wait_until(connections_ / 5, static_cast<std::size_t>(2 * ranks_));
      attack.while_forming = strangers.connections();
      create(folder / "start");
      strangers.wait_until(connections_);
      create(folder / "stop");
      attack.result = job.result();
      attack.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      attack.grown_bytes = resident_bytes(job.launchers().front()) - before;
      attack.connections = strangers.connections();
      attack.ports = strangers.ports();
      attack.held_at_once = strangers.held_at_once();
    }
    attack.calls_ms = member.stop();
    return attack;
  }

  TwoNodes::Result undisturbed(long steps) const {
    const ScratchFolder folder("lockstep-strangers");
    create(folder / "start");
    return TwoNodes(ranks_, worker(folder / "start", {"--steps", std::to_string(steps)})).result();
  }

  void report(const Attack& attack) const {
    const auto share = [&attack](double part) {
      const std::vector<double>& sorted = attack.calls_ms;
      return sorted[std::min(sorted.size() - 1, static_cast<std::size_t>(part * static_cast<double>(sorted.size())))];
    };
    const double grown_mb = static_cast<double>(attack.grown_bytes) / 1e6;
    if (json_) {
      const nlohmann::ordered_json row = {
          {"connections", attack.connections}, {"while_forming", attack.while_forming}, {"ports", attack.ports},
          {"seconds", attack.seconds},         {"calls", attack.calls_ms.size()},       {"call_median_ms", share(0.5)},
          {"call_p99_ms", share(0.99)},        {"call_max_ms", attack.calls_ms.back()}, {"grown_mb", grown_mb},
          {"steps", attack.result.steps},      {"digest", attack.result.digest}};
      fmt::print("{}\n", row.dump(2));
      return;
    }
    fmt::print("{} ranks on each of two hosts (launchers of this one), engine tcp; {} cores, load {:.2f}\n\n", ranks_,
               available_cores(), load_average());
    fmt::print("connections of strangers   {:>10}, {} of them while the job formed, in {:.1f} s\n", attack.connections,
               attack.while_forming, attack.seconds);
    fmt::print("ports that they reached    {:>10}, with up to {} connections open at once\n", attack.ports,
               attack.held_at_once);
    fmt::print("a member's calls           {:>10}, median {:.3f} ms, 99 % within {:.3f} ms, longest {:.1f} ms\n",
               attack.calls_ms.size(), share(0.5), share(0.99), attack.calls_ms.back());
    fmt::print("memory of the store's host {:>10.1f} MB more\n", grown_mb);
    fmt::print("training steps             {:>10}, weights bit for bit those of a job without strangers\n",
               attack.result.steps);
  }

  const std::string secret_ = make_secret();
  std::int64_t connections_ = 100'000;
  int ranks_ = 2;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_strangers() { return std::make_unique<BenchStrangers>(); }

}  // namespace lockstep
