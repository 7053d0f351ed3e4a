// Tests what is read from the last lines of ranks that left no error file.
#include "lockstep/launch/ranks/written_cause.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Kind = FailureCause::Kind;

struct WrittenCase {
  const char* name;
  std::vector<std::string> lines;
  std::optional<FailureCause> want;
  friend std::ostream& operator<<(std::ostream& out, const WrittenCase& c) { return out << c.name; }
};
class WrittenCause : public ::testing::TestWithParam<WrittenCase> {};

TEST_P(WrittenCause, IsThatOfTheLastError) { EXPECT_EQ(cause_in_text(GetParam().lines), GetParam().want); }

const std::string kWrittenWhere = "  where: rank 0 of 4 on vm, shm", kWrittenFix = "  fix: read the log of rank 3";

INSTANTIATE_TEST_SUITE_P(
    Table, WrittenCause,
    ::testing::Values(
        WrittenCase{"nothing", {}, std::nullopt},
        WrittenCase{
            "lost",
            {"terminate called after throwing an instance of 'lockstep::Caused<lockstep::Error>'",
             "  what():  all_reduce #5 (sum) of 1000 float lost rank 3 on vm (process 14615): its process ended",
             kWrittenWhere, kWrittenFix},
            FailureCause{Kind::LostPeer, 3}},
        WrittenCase{"connection",
                    {"send #1 lost the connection to rank 2 on a, rank 3 on b", kWrittenWhere, kWrittenFix},
                    FailureCause{Kind::LostPeer, 2}},
        WrittenCase{"left_in_a_part_of_the_job",
                    {"rank 0 (4 of the job) on vm (process 7) left the group before barrier #2", kWrittenWhere},
                    FailureCause{Kind::PeerLeft, 4}},
        WrittenCase{"aborted",
                    {"rank 1 on vm ended the group: the disk", "is full", kWrittenWhere, kWrittenFix},
                    FailureCause{Kind::AbortedByPeer, 1}},
        WrittenCase{"late",
                    {"barrier #5 timed out after 3.0 s: rank 3 on vm (process 5) has not arrived", kWrittenWhere},
                    FailureCause{Kind::Timeout, 3}},
        WrittenCase{"disagreement",
                    {"the ranks disagree: rank 0 on vm calls barrier #1; rank 1 on vm calls barrier #2", kWrittenWhere},
                    FailureCause{Kind::Disagreement, -1}},
        WrittenCase{
            "words_that_are_no_error", {"all_reduce lost rank 3 on vm (process 7): its process ended"}, std::nullopt},
        WrittenCase{"an_error_of_its_own_after_it",
                    {"x lost rank 3 on vm: connection closed", kWrittenWhere, kWrittenFix, "cannot open a.csv",
                     "  where: rank 0", "  fix: name a file"},
                    std::nullopt}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
