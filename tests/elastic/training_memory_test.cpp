// What a training leaves in the memory of its job, and who may continue from there.
#include "lockstep/elastic/training_memory.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/net/worlds/job_memory.h"

namespace lockstep {
namespace {

class InJobMemory : public ::testing::Test {
 protected:
  InJobMemory() {
    // As a fused update leaves it.
    header().layout.store(JobMemoryHeader::kLayout);
    header().is_whole.store(1);
    header().number.store(7);
  }

  MemoryHeader& header() const { return job_->header(); }
  bool can_continue(const std::string& purpose) const {
    std::string why_not;
    return TrainingMemory(job_, purpose).has_place(why_not);
  }
  static TrainingMemory::Place a_place() {
    TrainingMemory::Place place;
    place.text = std::string("two\nlines\0", 10);
    place.position = 41;
    place.options = {{{"lr", 0.1}, {"eps", 1e-8}}, {{"lr", 0.2}}};
    place.buffers = lockstep::bytes_of({at::arange(3), at::arange(2)});
    place.untrained = 99;
    return place;
  }

  const UniqueFd file_ = make_job_memory();
  const std::shared_ptr<JobMemoryMap> job_ = std::make_shared<JobMemoryMap>(file_.get());
};

TEST_F(InJobMemory, APlaceIsFoundAsItWasKept) {
  TrainingMemory memory(job_, "one");
  memory.keep(a_place(), "one line;", 6);
  memory.keep(a_place(), std::string("one line;two\0lines;", 19), 7);
  ASSERT_TRUE(can_continue("one"));
  EXPECT_EQ(steps_in_memory(file_.get()), 7U);
  const TrainingMemory::Place found = TrainingMemory(job_, "one").place();
  EXPECT_EQ(found.text, a_place().text);
  EXPECT_EQ(found.position, 41);
  EXPECT_EQ(found.options, a_place().options);
  EXPECT_EQ(found.untrained, 99U);
  EXPECT_EQ(found.updates, 7U);
  EXPECT_EQ(found.log, std::string("one line;two\0lines;", 19));
  const auto buffers = tensors_of_bytes(found.buffers, {at::arange(3), at::arange(2)});
  EXPECT_TRUE(at::equal(buffers[0], at::arange(3)));
  EXPECT_TRUE(at::equal(buffers[1], at::arange(2)));
  EXPECT_THROW(tensors_of_bytes(found.buffers, {at::arange(3)}), Error);
}

// Three processes are the first rank in turn; each adds to the log what the others have not seen.
TEST_F(InJobMemory, TheLogIsWholeWhoeverHasWrittenBefore) {
  std::string log;
  std::vector<std::unique_ptr<TrainingMemory>> processes;
  for (int i = 0; i < 3; ++i) {
    processes.push_back(std::make_unique<TrainingMemory>(std::make_shared<JobMemoryMap>(file_.get()), "one"));
  }
  std::int64_t step = 0;
  for (const int first : {0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 2, 0, 2, 2, 2, 1}) {
    log += "step " + std::to_string(step++) + " of " + std::to_string(first) + ";";
    processes[static_cast<std::size_t>(first)]->keep(a_place(), log, step);
    header().number.store(header().number.load() + 1);
    const TrainingMemory::Place found = TrainingMemory(job_, "one").place();
    EXPECT_EQ(found.text, a_place().text);
    EXPECT_EQ(found.log, log);
  }
}

TEST_F(InJobMemory, ALogThatAnotherTrainingHasWrittenIsWrittenAgain) {
  TrainingMemory mine(job_, "one"), others(std::make_shared<JobMemoryMap>(file_.get()), "another");
  std::string log = "loss 0.5;";
  const std::string of_others = "loss 7.5;";
  for (int place = 0; place < 2; ++place) mine.keep(a_place(), log, 1);
  for (int place = 0; place < 2; ++place) others.keep(a_place(), of_others, 2);
  log += "loss 0.25;";
  header().number.store(8);
  mine.keep(a_place(), log, 3);
  EXPECT_EQ(TrainingMemory(job_, "one").place().log, log);
}

TEST_F(InJobMemory, OnlyTheSameTrainingMayContinue) {
  EXPECT_FALSE(can_continue("one")) << "nothing was kept";
  TrainingMemory(job_, "one").keep(a_place(), "", 1);
  std::string why_not;
  EXPECT_FALSE(TrainingMemory(job_, "another").has_place(why_not));
  EXPECT_NE(why_not.find("other arguments, data or weights"), std::string::npos) << why_not;
  EXPECT_FALSE(TrainingMemory(nullptr, "one").has_place(why_not));
  header().is_whole.store(0);
  EXPECT_FALSE(can_continue("one")) << "the weights are gone";
}

TEST_F(InJobMemory, ATrainingThatFailedByItselfIsNotContinued) {
  TrainingMemory memory(job_, "one");
  memory.keep(a_place(), "", 1);
  memory.withdraw();
  EXPECT_FALSE(can_continue("one"));
  EXPECT_EQ(steps_in_memory(file_.get()), std::nullopt);
  memory.keep(a_place(), "", 2);
  EXPECT_TRUE(can_continue("one")) << "others have survived the failure";
}

TEST_F(InJobMemory, AnUpdateHasItsOwnOutcome) {
  TrainingMemory memory(job_, "one");
  memory.keep(a_place(), "", 1);
  memory.keep_update({"its totals", {std::byte{1}, std::byte{2}}});
  const TrainingMemory::Place place = memory.place();
  EXPECT_THROW(memory.kept_update(place), Error) << "the weights have not seen the update";
  header().number.store(8);
  const TrainingMemory::KeptUpdate found = memory.kept_update(place);
  EXPECT_EQ(found.text, "its totals");
  EXPECT_EQ(found.buffers, (std::vector<std::byte>{std::byte{1}, std::byte{2}}));
  header().number.store(9);
  EXPECT_THROW(memory.kept_update(place), Error);
  header().number.store(8);
  memory.keep(a_place(), "", 2);
  header().number.store(9);
  EXPECT_THROW(memory.kept_update(memory.place()), Error) << "the memory has the outcome of the update before";
}

// The process dies at the record's second page.
TEST_F(InJobMemory, APlaceThatIsHalfWrittenDoesNotCount) {
  TrainingMemory memory(job_, "one");
  memory.keep(a_place(), "", 1);
  const auto page = static_cast<std::size_t>(::getpagesize());
  auto* const second = reinterpret_cast<std::byte*>(&header()) + 2 * page;
  TrainingMemory::Place large = a_place();
  large.position = 42;
  large.buffers.resize(4 * page);
  const auto die_while_it_keeps = [&] {
    ::prctl(PR_SET_DUMPABLE, 0);
    ASSERT_EQ(::mprotect(second, page, PROT_NONE), 0);
    memory.keep(large, "", 2);
  };
  EXPECT_EXIT(die_while_it_keeps(), ::testing::KilledBySignal(SIGSEGV), "");
  ASSERT_TRUE(can_continue("one"));
  EXPECT_EQ(memory.place().position, 41);
  EXPECT_EQ(steps_in_memory(file_.get()), 1U);
  memory.keep(large, "", 2);
  EXPECT_EQ(memory.place().position, 42);
}

// Twice as much as a record may have.
TEST_F(InJobMemory, WhatIsTooLargeIsNotKept) {
  TrainingMemory memory(job_, "one");
  memory.keep(a_place(), "", 1);
  TrainingMemory::Place large = a_place();
  large.buffers.resize(std::size_t{32} << 20);
  memory.keep(large, "", 2);
  EXPECT_FALSE(can_continue("one")) << "an older place than the weights";
  TrainingMemory another(job_, "one");
  another.keep(a_place(), "", 2);
  EXPECT_TRUE(can_continue("one"));
  another.keep(a_place(), std::string(std::size_t{32} << 20, 'x'), 3);
  EXPECT_FALSE(can_continue("one")) << "an older log than the weights";
}

}  // namespace
}  // namespace lockstep
