#include "lockstep/comm/process_group.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Runs `body` in processes that have met once: their ranks are known, and they make their default groups themselves.
void in_processes(int world_size, const std::function<void(int rank, const std::string& init_method)>& body) {
  const TemporaryFolder folder;
  run_ranks_as_processes(world_size, [&](const Membership& membership) {
    ::unsetenv("LOCKSTEP_STORE");
    body(membership.rank, "file://" + (folder / "meeting"));
  });
}

TEST(ProcessGroup, HasPyTorchsCalls) {
  in_processes(3, [](int rank, const std::string& init_method) {
    EXPECT_FALSE(is_initialized());
    init_process_group("gloo", init_method, 3, rank);
    EXPECT_TRUE(is_initialized());
    EXPECT_EQ(get_rank(), rank);
    EXPECT_EQ(get_local_rank(), rank);
    EXPECT_EQ(get_world_size(), 3);
    EXPECT_STREQ(default_group()->engine(), "gloo");
    barrier();

    const auto pair = new_group({2, 0});
    EXPECT_EQ(pair == nullptr, rank == 1);
    if (pair) {
      EXPECT_EQ(pair->rank(), rank == 2 ? 0 : 1);
      at::Tensor tensor = at::full({4}, rank, at::kFloat);
      pair->all_reduce(tensor);
      EXPECT_TRUE(tensor.eq(2).all().item<bool>());
    }
    EXPECT_TRUE(contains(text_of([] { init_process_group(); }), "called twice"));
    destroy_process_group();
    EXPECT_FALSE(is_initialized());
    destroy_process_group();  // does nothing
  });
}

TEST(ProcessGroup, ChoosesAnEngine) {
  in_processes(2, [](int rank, const std::string& init_method) {
    init_process_group("", init_method, 2, rank);
    at::Tensor tensor = at::ones({3});
    default_group()->all_reduce(tensor);
    EXPECT_TRUE(tensor.eq(2).all().item<bool>());
    destroy_process_group();
  });
}

TEST(ProcessGroup, RefusesEnginesThatDoNotExist) {
  in_processes(2, [](int rank, const std::string& init_method) {
    EXPECT_TRUE(contains(text_of([&] { init_process_group("carrier-pigeon", init_method, 2, rank); }), "gloo"));
    EXPECT_FALSE(is_initialized());
  });
}

TEST(ProcessGroup, RefusesAWorldSizeThatDoesNotFit) {
  in_processes(2, [](int rank, const std::string& init_method) {
    const std::string text =
        text_of([&] { init_process_group("", init_method, 2, rank + 1, std::chrono::seconds(1)); });
    // Rank 2 of 2 does not exist, and rank 1 waits in vain for rank 0.
    EXPECT_NE(text, "no error") << "rank " << rank;
  });
}

TEST(ProcessGroup, CallsWithoutAGroupSayWhatToDo) {
  EXPECT_TRUE(contains(text_of([] { get_rank(); }), "init_process_group"));
  EXPECT_TRUE(contains(text_of([] { new_group({0}); }), "init_process_group"));
}

TEST(ProcessGroup, NewGroupNeedsRanksThatExistOnce) {
  in_processes(1, [](int rank, const std::string& init_method) {
    init_process_group("", init_method, 1, rank);
    EXPECT_TRUE(contains(text_of([] { new_group({0, 1}); }), "rank 1 does not exist"));
    EXPECT_TRUE(contains(text_of([] { new_group({0, 0}); }), "occurs twice"));
    destroy_process_group();
  });
}

TEST(ProcessGroup, TimeoutFromTheEnvironment) {
  in_processes(1, [](int rank, const std::string& init_method) {
    ::setenv("LOCKSTEP_TIMEOUT_S", "7", 1);
    init_process_group("", init_method, 1, rank);
    EXPECT_EQ(default_group()->membership().timeout, std::chrono::seconds(7));
    destroy_process_group();
    ::setenv("LOCKSTEP_TIMEOUT_S", "0", 1);
    EXPECT_TRUE(contains(text_of([&] { init_process_group("", init_method + "2", 1, rank); }), "LOCKSTEP_TIMEOUT_S"));
  });
}

TEST(ProcessGroup, WaitsAsLongAsPyTorchByDefault) {
  EXPECT_EQ(default_timeout(""), std::chrono::minutes(30));
  EXPECT_EQ(default_timeout("gloo"), std::chrono::minutes(30));
  for (const Engine& engine : available_engines()) {
    const bool is_of_device = engine.device != c10::DeviceType::CPU;
    EXPECT_EQ(default_timeout(engine.name), std::chrono::minutes(is_of_device ? 10 : 30)) << engine.name;
  }
  in_processes(2, [](int rank, const std::string& init_method) {
    ::unsetenv("LOCKSTEP_TIMEOUT_S");
    init_process_group("", init_method, 2, rank);
    EXPECT_EQ(default_group()->membership().timeout, std::chrono::minutes(30));
    EXPECT_EQ(default_group()->membership().join_timeout, std::chrono::minutes(10));
    destroy_process_group();
  });
}

TEST(ProcessGroup, JoiningHasALimitOfItsOwn) {
  in_processes(2, [](int rank, const std::string& init_method) {
    if (rank == 1) return;  // it never arrives
    const auto give_up = [&](const char* place, std::optional<milliseconds> join, std::optional<milliseconds> timeout) {
      ProcessGroupOptions options;
      options.init_method = init_method + place;
      options.world_size = 2;
      options.rank = rank;
      options.join_timeout = join;
      options.timeout = timeout;
      const std::string text = text_of([&] { init_process_group(options); });
      EXPECT_TRUE(contains(text, "rank 1 did not arrive")) << place << ": " << text;
    };
    give_up("option", std::chrono::seconds(1), std::nullopt);
    give_up("timeout", std::nullopt, std::chrono::seconds(1));  // as in PyTorch, it applies to both
    ::setenv("LOCKSTEP_JOIN_TIMEOUT_S", "1", 1);
    give_up("variable", std::nullopt, std::chrono::hours(1));
  });
}

TEST(ProcessGroup, RefusesUnknownInstructionsAtTheStart) {
  in_processes(1, [](int rank, const std::string& init_method) {
    ::setenv("LOCKSTEP_ISA", "avx1024", 1);
    const std::string text = text_of([&] { init_process_group("", init_method, 1, rank); });
    EXPECT_TRUE(contains(text, "LOCKSTEP_ISA is \"avx1024\"")) << text;
    ::setenv("LOCKSTEP_ISA", "avx2", 1);
    init_process_group("", init_method, 1, rank);
    destroy_process_group();
  });
}

}  // namespace
}  // namespace lockstep
