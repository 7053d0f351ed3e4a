#!/usr/bin/env python3
"""Shows that the checks of what outlives the ranks can fail: breaks the journal of fused updates and the training's
memory in one place after the other.

    python3 tests/parallel/fused/survival/mutants.py SOURCE BUILD [--limit SECONDS] [--only PATTERN]

For each mutant a file is changed, compiled and linked with the programs that may notice, the quickest first: models of
the protocols, tests of the journal and of the training's memory, ranks that die in an update, and trainings whose ranks
all die. While the last ones run, the build folder's trainer_rank has the mutant. Exits with 1 if nothing notices one.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from mutant_build import Look, Mutant, look_for, parse_flags, with_header  # noqa: E402

PROTOCOL = "src/lockstep/comm/shm/protocols/update_protocol.h"
LANE = "src/lockstep/optim/update/update_lane.h"
BLOCKS = "src/lockstep/optim/kernels/undo_blocks.h"
KERNELS = ["src/lockstep/optim/kernels/kernels_" + name + ".cpp" for name in ("scalar", "avx2", "avx512")]
RECOVERY = "src/lockstep/parallel/fused/recovery/"
JOURNAL, UPDATE, MEMORY, MAP, MEETING = (RECOVERY + name for name in (
    "update_journal.cpp", "recoverable_update.cpp", "lasting_memory.cpp", "job_memory_map.cpp", "update_meeting.cpp"))
FUSED = RECOVERY + "recoverable_pass.cpp"
TRAINING = "src/lockstep/elastic/training_memory.cpp"
SESSION = "src/lockstep/train/survival/session_memory.cpp"

# (what is wrong then, file, what stands there, what stands there instead)
OF_LANES = [
    ("a lane continues where another update was", LANE, "    if (!seen.is_of(number)) return 0;\n", ""),
    ("a lane begins at its first block again", LANE, "return seen.position;", "return 0;"),
    ("a block that was under way is not taken back", LANE, "    if (seen.elements > 0) restore(seen);\n", ""),
    ("a lane is done once its last block is under way", LANE, "seen.position >= until",
     "seen.position + seen.elements >= until"),
    ("a block is marked before its old values are kept", BLOCKS,
     "    log.save(at, elements, slot);\n    log.mark(at, elements, slot);",
     "    log.mark(at, elements, slot);\n    log.save(at, elements, slot);"),
    ("a block is not marked", BLOCKS, "    log.mark(at, elements, slot);\n", ""),
    ("all blocks have one slot", BLOCKS, "slot = 1 - slot", "slot = 0"),
    ("the last block of a pass stays marked", BLOCKS, "  log.mark(end, 0, 0);\n", ""),
]
OF_NOTES = [
    ("a note counts before it is written", "    write();\n    memory_.store(notes_.word(memory_.rank()), number);",
     "    memory_.store(notes_.word(memory_.rank()), number);\n    write();"),
    ("the note of an earlier update counts", "if (memory_.load(notes_.word(rank)) == number) return rank;",
     "if (memory_.load(notes_.word(rank)) != 0) return rank;"),
    ("only the first rank's note counts", "rank < memory_.world_size(); ++rank) {\n      if (memory_.load(notes_",
     "rank < 1; ++rank) {\n      if (memory_.load(notes_"),
    ("a new journal has the words of an old one", "    journal_.clear();\n", ""),
    ("a new journal counts before all have cleared it", "    journal_.clear();\n    meet();", "    journal_.clear();"),
    ("a new journal never counts", "static_cast<std::uint64_t>(memory_.world_size()));", "0);"),
]
OF_UPDATES = [
    ("a new journal has old notes", JOURNAL, "  store(word(rank_), 0);\n", ""),
    ("a new journal has old lanes", JOURNAL, "store(lane_word(rank_, lane), 0);", ";"),
    ("a note lacks the norm", JOURNAL, "    std::memcpy(out + sizeof(double), &note.norm, sizeof(double));\n", ""),
    ("a note lacks which parameters have gradients", JOURNAL,
     "std::memcpy(out + kNumbersBytes, note.contributed.data(), parameters_);", ";"),
    ("an update that is decided and not finished counts as whole", UPDATE,
     "finish_rank(before, place, *decided);", ";"),
    ("ranks that follow finish the parts of their own places alone", UPDATE, "place += ranks_here_", "place += ranks"),
    ("an update counts before all that follow have finished it", UPDATE,
     "  if (communicator.world_size() > 1) communicator.barrier();\n  if (decided) end", "  if (decided) end"),
    ("a finished update does not count", UPDATE, "  if (decided) end(*decided);\n", ""),
    ("an update counts before each parameter's updates are counted", UPDATE,
     "  parts_.state.write_steps(memory_->steps(number_ + 1));\n",
     "  memory_->header().number.store(number_ + 1);\n  parts_.state.write_steps(memory_->steps(number_ + 1));\n"),
    ("each parameter's updates are not counted", UPDATE, "    parts_.state.count(b, update.skip);\n", ""),
    ("the norm of an update is forgotten", UPDATE, "  memory_->norm(number_ + 1) = note.norm;\n", ""),
    ("parts of lost ranks are not finished", UPDATE, "finish_rank(crew_, lost[i], note);", ";"),
    ("the gradients' factor is forgotten", UPDATE, "  update.gradient.factor = note.factor;\n", ""),
    ("the state of another model counts", MEMORY, "if (header.shape.load() != shape.digest()) {", "if (false) {"),
    ("another training begins at the number of the one before", MEMORY, "  header.number.store(0);\n", ""),
    ("how often parameters were updated before is forgotten", FUSED,
     "  if (!rescue_.adopts()) state_->write_steps(lasting_->steps(0));\n", ""),
    ("a note of another host is not written here", MEETING, "      update->take(note_of(text));\n", ""),
    ("ranks of one host finish before the others know", MEETING,
     "  if (group.world_size() > 1) group.barrier();\n", ""),
]
OF_TRAININGS = [
    ("the place of another training counts", TRAINING, "if (purpose == purpose_)", "if (!purpose.empty())"),
    ("a training that failed by itself is continued", SESSION, "    memory_.withdraw();\n", ""),
    ("an older place counts if the newest one is too large", TRAINING, "  withdraw();\n  log_warning", "  log_warning"),
    ("a place without weights counts", TRAINING, " && header.is_whole.load() != 0", ""),
    ("the log's history is not kept", SESSION, "for (; written_entries_ < history.size()", "for (; false"),
    ("the outcome of another update counts", MAP, "return found == number ? std::move(record) : std::nullopt;",
     "return record;"),
    ("an outcome counts before the update does", TRAINING, "if (!record || updates() != place.updates + 1) {",
     "if (!record) {"),
    ("a place counts before it is whole", MAP, "  if (!write(next % 2, number, record, log)) return false;\n",
     "  newest.store(next);\n  if (!write(next % 2, number, record, log)) return false;\n"),
    ("a log that another process has written counts as this one's", MAP, "const bool is_mine = ",
     "const bool is_mine = true || "),
    ("what a log has more is not written", MAP, "  std::memcpy(first + kRecordBytes + written,",
     "  if (written == 0) std::memcpy(first + kRecordBytes + written,"),
    ("a place overwrites the one before", MAP, "next = newest.load() + 1;", "next = newest.load() + 2;"),
    ("other arguments are the same training", SESSION,
     '{"arguments", arguments},\n', "\n"),
    ("other data are the same training", SESSION, "data ? parts_.data.change_since(*data) : \"\"", '""'),
    ("what the program says of its data is no part of the training", SESSION,
     '{"data", context_.options.data_arguments},', ""),
    ("other buffers are the same training", SESSION,
     "  for (const NamedTensor& each : model_.tensors().buffers()) add(each);\n", ""),
    ("another class of the same weights is the same training", SESSION, '{"model", type_of(model_)},', ""),
    ("weights that are not trained may be others", SESSION, "if (has_place && decides && memory_.place().untrained",
     "if (false && memory_.place().untrained"),
    ("ranks keep their own weights that are not trained", SESSION,
     "  if (context_.group) broadcast_coalesced(*context_.group, state_.untrained(), 0);\n", ""),
    ("a finished update is not the training's", SESSION,
     "if (memory_.updates() != place.updates) finish_update(place);", ""),
    ("the log's history is lost", SESSION, "  context_.state.log_history = entries_of(place.log);\n", ""),
    ("the norm of a finished update is lost", SESSION, "  parts_.updater.note_step(rescue_.state()->norm());\n", ""),
    ("the loss of a finished update is lost", SESSION, "update_.end(kept.totals, true);",
     "update_.end(UpdateTotals(), true);"),
    ("a stop that was asked for is forgotten", SESSION,
     "  if (!update_.stop_was_asked()) update_.set_stop_signal(kept.stop_signal);\n", ""),
    ("the optimizer's options are lost", SESSION, "  parts_.updater.optimizer().load_group_options(place.options);\n",
     ""),
    ("the buffers before the update are lost", SESSION, "  copy_to_buffers(place.buffers, model_);\n", ""),
    ("the buffers after a finished update are lost", SESSION, "  copy_to_buffers(record.buffers, model_);\n",
     ""),
]

MODELS = "tests/comm/shm/"


def mutants():
    of_models = [MODELS + name + ".cpp" for name in (
        "update_model_test", "journal_model_test", "interleavings", "checked_memory")]
    models = Look("comm_test", [], with_header(of_models), "tests/CMakeFiles/comm_test.dir/")
    deadly = ["--gtest_filter=JournalInMemory*:FuseEndOfAll*:FuseSurvival*-*StandsStill*", "--gtest_fail_fast"]
    in_updates = Look("parallel_test", deadly)
    with_the_header = Look("parallel_test", deadly, with_header([JOURNAL, UPDATE]))
    in_trainings = Look("elastic_test", ["--gtest_filter=InJobMemory*", "--gtest_fail_fast"])
    all_die = Look("e2e_launcher_test", ["--gtest_filter=JobMemory*", "--gtest_fail_fast"], starts="trainer_rank")
    in_kernels = Look("optim_test", ["--gtest_filter=UndoLog*"], with_header(KERNELS))
    found = [Mutant(*row, [models, with_the_header if row[1] == LANE else in_kernels]) for row in OF_LANES]
    found += [Mutant(what, PROTOCOL, old, new, [models, with_the_header]) for what, old, new in OF_NOTES]
    found += [Mutant(*row, [in_updates, all_die]) for row in OF_UPDATES]
    return found + [Mutant(*row, [all_die] if row[1] == SESSION else [in_trainings, all_die]) for row in OF_TRAININGS]


if __name__ == "__main__":
    sys.exit(look_for(parse_flags(__doc__), mutants()))
