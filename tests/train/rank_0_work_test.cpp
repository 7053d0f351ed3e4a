// Tests work that rank 0 does for all: if it fails, the others report the reason instead of waiting.
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/train/accelerator.h"
#include "tests/support/ranks.h"
#include "tests/train/token_training.h"

namespace lockstep {
namespace {

std::string text_thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(RankZeroWork, WhatATrainerCannotSaveAllRanksThrow) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    TokenTraining training;
    training.options.process_group = make_communicator("thread", membership);
    training.options.args.output_dir = "/proc/nothing";
    Trainer trainer(training.options);
    for (const std::function<void()>& save :
         std::vector<std::function<void()>>{[&] { trainer.save_model(); },
                                            [&] {
                                              trainer.save_metrics("eval", {{"eval_loss", 1.0}});
                                            },
                                            [&] { trainer.save_state(); }}) {
      const std::string text = text_thrown_by(save);
      EXPECT_NE(text.find("/proc/nothing"), std::string::npos) << text;
      if (membership.rank == 1) {
        EXPECT_NE(text.find("rank 0 failed"), std::string::npos) << text;
      }
    }
    training.options.process_group->barrier();
  });
}

TEST(RankZeroWork, WhatFailsInTheProcessThatGoesFirstAllThrow) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    AcceleratorOptions options;
    options.ddp.process_group = make_communicator("thread", membership);
    Accelerator accelerator(options);
    const std::string text = text_thrown_by([&] {
      accelerator.main_process_first([&] {
        if (!accelerator.is_main_process()) ADD_FAILURE() << "the others must not begin";
        throw Error("the download failed", "here", "try again");
      });
    });
    EXPECT_NE(text.find("the download failed"), std::string::npos) << text;
    if (membership.rank == 1) {
      EXPECT_NE(text.find("rank 0 failed"), std::string::npos) << text;
    }
  });
}

}  // namespace
}  // namespace lockstep
