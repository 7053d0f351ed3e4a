#include "lockstep/launch/plan.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <functional>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/launch/flags.h"

namespace lockstep {
namespace {

// Makes a plan as the command line tool does.
LaunchPlan plan_of(std::vector<std::string> words) {
  LaunchFlags flags;
  CLI::App app;
  add_launch_flags(app, flags);
  words.push_back("./train");
  std::reverse(words.begin(), words.end());
  app.parse(words);
  return make_plan(flags);
}

struct Good {
  const char* name;
  std::vector<std::string> words;
  std::function<bool(const LaunchPlan&)> holds;
  friend std::ostream& operator<<(std::ostream& out, const Good& c) { return out << c.name; }
};
class AcceptedFlags : public ::testing::TestWithParam<Good> {};

TEST_P(AcceptedFlags, MakeThePlan) { EXPECT_TRUE(GetParam().holds(plan_of(GetParam().words))); }

using namespace std::chrono_literals;
INSTANTIATE_TEST_SUITE_P(
    Table, AcceptedFlags,
    ::testing::Values(
        Good{"defaults",
             {},
             [](const LaunchPlan& p) {
               return p.nodes == 1 && p.local_ranks == 1 && p.master_port == 0 && p.master_addr == "127.0.0.1" &&
                      p.max_restarts == 0 && p.role == "default" && p.run_id == "none" && !p.wants_log_files() &&
                      p.grace_after_failure == 900ms && p.grace_after_signal == 30s && p.monitor_interval == 100ms &&
                      p.join_timeout == 600s && p.collective_timeout_s.empty();
             }},
        Good{"number_of_ranks", {"--nproc-per-node", "3"}, [](const LaunchPlan& p) { return p.local_ranks == 3; }},
        Good{"equals_sign", {"--nproc-per-node=3"}, [](const LaunchPlan& p) { return p.local_ranks == 3; }},
        Good{"a_rank_per_core",
             {"--nproc-per-node", "cpu"},
             [](const LaunchPlan& p) { return p.local_ranks == available_cores(); }},
        Good{"nodes",
             {"--nnodes", "2", "--node-rank", "1"},
             [](const LaunchPlan& p) {
               return p.nodes == 2 && p.node_rank == 1 && p.master_port == 29500 && p.node_ranks == NodeRanks::Given;
             }},
        Good{"range_of_one_length",
             {"--nnodes", "3:3"},
             [](const LaunchPlan& p) { return p.nodes == 3 && p.min_nodes == 3 && p.node_ranks == NodeRanks::Given; }},
        Good{"nodes_that_come_and_go",
             {"--nnodes=1:4", "--rdzv-endpoint=host-a"},
             [](const LaunchPlan& p) {
               return p.min_nodes == 1 && p.nodes == 4 && p.node_ranks == NodeRanks::ByArrival &&
                      p.master_port == 29400 && p.join_timeout == 600s && p.last_call == 30s && p.keep_alive == 15s;
             }},
        Good{"settings_of_nodes_that_come_and_go",
             {"--nnodes=1:4", "--rdzv-backend=c10d",
              "--rdzv-conf=join_timeout=9,last_call_timeout=0,keep_alive_interval=0.5,keep_alive_max_attempt=4"},
             [](const LaunchPlan& p) { return p.join_timeout == 9s && p.last_call == 0s && p.keep_alive == 2s; }},
        Good{"master",
             {"--master-addr", "10.1.2.3", "--master-port", "1234"},
             [](const LaunchPlan& p) { return p.master_addr == "10.1.2.3" && p.master_port == 1234; }},
        Good{"c10d_assigns_node_ranks",
             {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=host-a:4321"},
             [](const LaunchPlan& p) {
               return p.node_ranks == NodeRanks::ByArrival && p.master_addr == "host-a" && p.master_port == 4321;
             }},
        Good{"c10d_has_its_own_port",
             {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=host-a"},
             [](const LaunchPlan& p) { return p.master_addr == "host-a" && p.master_port == 29400; }},
        Good{"c10d_with_a_node_rank",
             {"--nnodes=2", "--rdzv-backend=c10d", "--node-rank=1"},
             [](const LaunchPlan& p) { return p.node_ranks == NodeRanks::Given && p.node_rank == 1; }},
        Good{"ipv6_endpoint",
             {"--nnodes=2", "--rdzv-endpoint=[::1]:4321"},
             [](const LaunchPlan& p) { return p.master_addr == "[::1]" && p.master_port == 4321; }},
        Good{"ipv6_endpoint_without_port",
             {"--nnodes=2", "--rdzv-endpoint=fe80::1"},
             [](const LaunchPlan& p) { return p.master_addr == "fe80::1" && p.master_port == 29500; }},
        Good{"rendezvous_settings",
             {"--nnodes=2", "--rdzv-conf=timeout=2.5,is_host=true,rank=1,keep_alive_interval=0.5"},
             [](const LaunchPlan& p) {
               return p.join_timeout == 2500ms && p.serves_store == true && p.node_rank == 1 && p.keep_alive == 1s;
             }},
        Good{"standalone",
             {"--standalone", "--rdzv-backend=c10d", "--rdzv-endpoint=elsewhere:1", "--rdzv-id=me"},
             [](const LaunchPlan& p) {
               return p.master_addr == "127.0.0.1" && p.master_port == 0 && p.run_id != "me" && p.run_id.size() == 16;
             }},
        Good{"times",
             {"--monitor-interval=5", "--shutdown-timeout=12.5", "--timeout=7"},
             [](const LaunchPlan& p) {
               return p.monitor_interval == 5s && p.grace_after_failure == 12500ms && p.grace_after_signal == 12500ms &&
                      p.collective_timeout_s == "7";
             }},
        Good{"streams",
             {"--nproc-per-node=3", "-r", "3", "-t", "0:1,2:2"},
             [](const LaunchPlan& p) {
               return p.redirects == std::vector<Streams>(3, Streams{true, true}) &&
                      p.tee == std::vector<Streams>{{true, false}, {false, false}, {false, true}} &&
                      p.wants_log_files();
             }},
        Good{"filter",
             {"--nproc-per-node=3", "--local-ranks-filter", "0,2"},
             [](const LaunchPlan& p) {
               return p.shown == std::vector<bool>{true, false, true};
             }},
        Good{
            "affinity", {"--cpu-affinity=split"}, [](const LaunchPlan& p) { return p.affinity == CpuAffinity::Split; }},
        Good{"starts_of_fixed_nodes",
             {"--nnodes=2", "--max-restarts=1"},
             [](const LaunchPlan& p) { return p.may_start_again(0) && !p.may_start_again(1); }},
        Good{"starts_of_nodes_that_come_and_go",
             {"--nnodes=1:2", "--rdzv-endpoint=host-a"},
             [](const LaunchPlan& p) { return p.may_start_again(0); }},
        Good{"starts_where_a_lost_host_ends_the_job",
             {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=host-a"},
             [](const LaunchPlan& p) { return !p.may_start_again(0); }},
        Good{"starts_where_a_lost_host_is_replaced",
             {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=host-a", "--max-restarts=1"},
             [](const LaunchPlan& p) { return p.may_start_again(1); }},
        Good{"restarts_and_role",
             {"--max-restarts=4", "--role=trainer", "--rdzv-id=j7", "--log-dir=logs"},
             [](const LaunchPlan& p) {
               return p.max_restarts == 4 && p.role == "trainer" && p.run_id == "j7" && p.log_dir == "logs";
             }}),
    [](const auto& test) { return test.param.name; });

struct Bad {
  const char* name;
  std::vector<std::string> words;
  const char* says;
  friend std::ostream& operator<<(std::ostream& out, const Bad& c) { return out << c.name; }
};
class RefusedFlags : public ::testing::TestWithParam<Bad> {};

TEST_P(RefusedFlags, AreNamedWithTheirValue) {
  try {
    plan_of(GetParam().words);
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().says), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, RefusedFlags,
    ::testing::Values(
        Bad{"no_ranks", {"--nproc-per-node=0"}, "--nproc-per-node is '0'"},
        Bad{"negative_ranks", {"--nproc-per-node=-2"}, "--nproc-per-node is '-2'"},
        Bad{"ranks_in_words", {"--nproc-per-node=two"}, "--nproc-per-node is 'two'"},
        Bad{"ranks_with_a_unit", {"--nproc-per-node=2x"}, "--nproc-per-node is '2x'"},
        Bad{"range_turned_round", {"--nnodes=4:1"}, "--nnodes is '4:1'"},
        Bad{"range_of_static_nodes",
            {"--nnodes=1:4", "--rdzv-backend=static"},
            "--rdzv-backend static cannot be combined with --nnodes 1:4"},
        Bad{"range_with_a_node_rank",
            {"--nnodes=1:4", "--node-rank=0"},
            "--node-rank cannot be combined with --nnodes 1:4"},
        Bad{"range_standalone", {"--nnodes=1:4", "--standalone"}, "--standalone"},
        Bad{"no_nodes", {"--nnodes=0"}, "--nnodes is '0'"},
        Bad{"three_ends", {"--nnodes=1:2:3"}, "--nnodes is '1:2:3'"},
        Bad{"node_rank_too_high", {"--nnodes=2", "--node-rank=2"}, "--node-rank is '2'"},
        Bad{"port_too_high", {"--master-port=65536"}, "--master-port is '65536'"},
        Bad{"port_in_words", {"--master-port=http"}, "--master-port is 'http'"},
        Bad{"free_port_on_several_nodes", {"--nnodes=2", "--master-port=0"}, "port 0"},
        Bad{"etcd", {"--rdzv-backend=etcd"}, "--rdzv-backend is 'etcd'"},
        Bad{"unknown_setting", {"--rdzv-conf=last_call_timeout=3"}, "last_call_timeout"},
        Bad{"setting_of_static_nodes", {"--nnodes=1:4", "--rdzv-conf=rank=1"}, "has 'rank'"},
        Bad{"setting_without_value", {"--rdzv-conf=timeout"}, "--rdzv-conf has 'timeout'"},
        Bad{"setting_is_no_time", {"--rdzv-conf=timeout=soon"}, "is 'soon'"},
        Bad{"standalone_on_two_nodes", {"--standalone", "--nnodes=2"}, "--standalone"},
        Bad{"endless_restarts", {"--max-restarts=-1"}, "--max-restarts is '-1'"},
        Bad{"no_interval", {"--monitor-interval=0"}, "--monitor-interval is '0'"},
        Bad{"not_a_time", {"--timeout=nan"}, "--timeout is 'nan'"},
        Bad{"endless", {"--timeout=inf"}, "--timeout is 'inf'"}, Bad{"too_many_streams", {"--tee=4"}, "--tee is '4'"},
        Bad{"stream_of_nobody", {"--nproc-per-node=2", "--redirects=2:3"}, "--redirects local rank is '2'"},
        Bad{"half_a_map", {"--nproc-per-node=2", "--redirects=0:3,1"}, "--redirects"},
        Bad{"filter_of_nobody", {"--local-ranks-filter=1"}, "--local-ranks-filter local rank is '1'"},
        Bad{"affinity", {"--cpu-affinity=all"}, "--cpu-affinity is 'all'"},
        Bad{"ranks_as_threads", {"--ranks-as=threads"}, "--ranks-as is 'threads'"},
        Bad{"python_and_not", {"--no-python", "--module"}, "--no-python cannot be combined with --module"}),
    [](const auto& test) { return test.param.name; });

class PetVariable : public ::testing::Test {
 protected:
  void set(const char* name, const char* value) {
    ::setenv(name, value, 1);
    names_.push_back(name);
  }
  void TearDown() override {
    for (const char* name : names_) ::unsetenv(name);
  }

 private:
  std::vector<const char*> names_;
};

TEST_F(PetVariable, CountsWhereTheFlagIsNotGiven) {
  set("PET_NPROC_PER_NODE", "5");
  set("PET_MAX_RESTARTS", "2");
  set("PET_NO_PYTHON", "1");
  EXPECT_EQ(plan_of({}).local_ranks, 5);
  EXPECT_EQ(plan_of({}).max_restarts, 2);
  EXPECT_EQ(plan_of({"--nproc-per-node=4"}).local_ranks, 4);
}

TEST_F(PetVariable, IsCheckedLikeTheFlag) {
  set("PET_NPROC_PER_NODE", "many");
  EXPECT_THROW(plan_of({}), UsageError);
}

TEST_F(PetVariable, OfTheShutdownTimeoutIsPyTorchs) {
  set("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "3");
  EXPECT_EQ(plan_of({}).grace_after_failure, 3s);
}

std::vector<std::string> command_of(std::vector<std::string> command, bool module = false, bool no_python = false,
                                    bool run_path = false) {
  LaunchFlags flags;
  flags.command = std::move(command);
  flags.module = module;
  flags.no_python = no_python;
  flags.run_path = run_path;
  return make_plan(flags).command;
}

using Words = std::vector<std::string>;

TEST(Program, IsExecutedAsItIsUnlessItIsAScript) {
  ::unsetenv("PYTHON_EXEC");
  EXPECT_EQ(command_of({"./train", "--lr", "1"}), (Words{"./train", "--lr", "1"}));
  EXPECT_EQ(command_of({"train.py", "x"}), (Words{"python3", "-u", "train.py", "x"}));
  EXPECT_EQ(command_of({"train.py"}, false, true), (Words{"train.py"}));
  EXPECT_EQ(command_of({"pkg.train", "x"}, true), (Words{"python3", "-u", "-m", "pkg.train", "x"}));
  EXPECT_EQ(command_of({"script"}, false, false, true), (Words{"python3", "-u", "script"}));
  EXPECT_THROW(command_of({}), UsageError);
}

TEST(Program, KeepsItsOwnFlags) {
  LaunchFlags flags;
  CLI::App app;
  add_launch_flags(app, flags);
  app.parse(Words{"3", "--nproc-per-node", "--help", "-t", "./train", "2", "--nproc-per-node"});  // last word first
  EXPECT_EQ(flags.nproc_per_node, "2");
  EXPECT_EQ(flags.command, (Words{"./train", "-t", "--help", "--nproc-per-node", "3"}));
}

}  // namespace
}  // namespace lockstep
