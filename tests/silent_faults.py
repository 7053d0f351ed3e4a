#!/usr/bin/env python3
"""Runs the tests of faults that were wrong in silence, or refused with words that mislead, one line for each fault.

    python3 tests/silent_faults.py SOURCE BUILD [--only PATTERN] [--list] [--check]

Each row says what a user did, and which tests show what happens now. A test is named as in its source, `Suite.Name`,
and counts with all its parameters; what begins with ctest: is an entry of ctest. --check runs nothing: it looks whether
every test that is named stands in the sources. Exits with 1 if a test failed, or none ran.

tests/mutants.py puts some of them in again.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

OPTIONS = "what ranks must have in common"
BACKWARDS = "gradients and forwards"
WEIGHTS = "weights that a program writes"
DATA = "data that ranks read"
ROWS = "rows of files"
SETTINGS = "settings of models and tokenizers"
SIGNALS = "signals"
LOG = "logs, metrics and folders"
WORDS = "refusals that misled"
PAGES = "lessons, examples and pages"

# (kind, what a user did, tests)
FAULTS = [
    (OPTIONS, "another learning rate on one rank after fuse, in every stage",
     "UpdateTermsOf.AnotherLearningRateOnOneRankIsNamed UpdateTerms.EveryOptionOfEveryGroupIsCompared"),
    (OPTIONS, "a schedule that looks at a rank's own loss", "NeedsMore.SchedulerThatLooksAtTheMeanLoss"),
    (OPTIONS, "step() or clip_grad_norm_() with other arguments on one rank",
     "UpdateTerms.EveryArgumentOfACallIsCompared"),
    (OPTIONS, "lists of parameters that change after fuse, or belong to no wrapped module",
     "FusedLists.AGroupThatOneRankAddsIsNamed FusedLists.AParameterThatOneRankReplacesByAnotherOfTheModuleIsNamed "
     "FusedLists.AParameterThatLeavesItsGroupIsAnError "
     "FusedLists.AParameterOfNoWrappedModuleIsAWarning FusedLists.FuseComparesItsArguments"),
    (OPTIONS, "a step that one rank leaves out, for a loss that is NaN",
     "UpdateTermsOf.AStepThatOneRankLeavesOutIsAnError UpdateTerms.AStepThatOneRankMakesTwiceIsAnError "
     "DriftOnce.AStepThatOneRankLeavesOutIsAnError NeedsMore.StepsThatAllRanksLeaveOut"),
    (OPTIONS, "a batch that one rank leaves out before its backward, an epoch that it ends early",
     "LeftOutBatches.AreAWarningOfPlainBackwards UpdateTerms.ABatchThatOneRankLeavesOutIsAWarning"),
    (OPTIONS, "options and lists of a rank that has run out of inputs in join",
     "JoinTerms.AnotherListOnARankWithoutInputsIsNamed JoinTerms.ARankWithoutInputsGetsTheOthersOptions"),
    (OPTIONS, "on_rank_change: a step that makes no exchange on one rank",
     "ElasticLoopJobs.AStepThatOneRankLeavesOutIsAnErrorOnAllRanks"),
    (OPTIONS, "clip_grad_norm_ of a list that has a parameter twice, and by norms of negative order, after fuse",
     "ClipKinds.EqualLibTorchOnAverages ClipGradNormCases.NormsOfNegativeOrder"),
    (OPTIONS, "a max_norm or clip_value that is negative or NaN",
     "ClipArguments.ThatTurnGradientsAroundAreNamed ClipGradNormCases.ArgumentsThatWouldTurnGradientsAround"),
    (OPTIONS, "a parameter that one rank alone freezes after the wrap",
     "FrozenOnOneRank.IsAnErrorOnEveryRank FrozenParameters.AreComparedBesideAHook "
     "FrozenParameters.TablesWithSparseGradientsAreCompared"),
    (OPTIONS, "other options, seeds or periods of communication hooks", "HookSettings.OtherSettingsOnOneRankAreNamed"),
    (OPTIONS, "two models of one shape whose backwards run in another order on some rank",
     "TwoModules.BackwardsInAnotherOrderAreAnError TwoModules.ForwardsInAnotherOrderAreAnError "
     "FusedLists.StepsOfTwoOptimizersInAnotherOrderAreAnError"),
    (BACKWARDS, "a gradient penalty with a backward of its own, in stages 2 and 3 and with fully_shard",
     "SecondOrder.PenaltiesMakeTheStepsOfOneProcess SecondOrderOnce.FullyShardedCriticsHavePenalties"),
    (BACKWARDS, "torch::autograd::grad over parameters, which nobody averages",
     "AutogradGrad.UpdatesByThisRanksGradientsAreReported AutogradGrad.OfTheModuleItselfIsReportedAtTheEnd "
     "AutogradGrad.UpdatesBesideBackwardsAreReportedAtOnce AutogradGrad.UpdatesByLibTorchsSgdAreReported "
     "NeedsMore.AveragedGradientsOfAutogradGrad"),
    (BACKWARDS, "a wrapper all of whose backwards are in no_sync",
     "OnlyNoSync.IsReportedAtTheEnd OnlyNoSyncOf.AHeadOfItsOwn OnlyNoSyncOf.LibTorchsSgd"),
    (BACKWARDS, "ddp->forward(x), other members, the module itself: buffers stayed apart",
     "PastTheWrapper.BuffersAndGradientsAreThoseOfTheWrapper PastTheWrapper.LoadedWeightsAreFollowed"),
    (BACKWARDS, "ddp->forward(x) right after a forward in no_sync",
     "PastNoSync.AForwardAfterOneInNoSyncIsFollowed PastNoSync.ABackwardOfAForwardInNoSyncStaysLocal"),
    (BACKWARDS, "ready() and follow_backward() for models without forward",
     "ParallelContext.ReadyKeepsThePlainModelsEqual NeedsMore.ModelsWithoutForward"),
    (BACKWARDS, "how programs call networks: twice, in parts, recurrent, frozen, without backward",
     "LoopsOfForwards.MakeTheWeightsOfOneProcess"),
    (BACKWARDS, "how programs update: groups, several networks, closures, by hand, with edited gradients",
     "LoopsOfUpdates.MakeTheWeightsOfOneProcess"),
    (BACKWARDS, "a shared encoder under two heads, one module wrapped twice, a part and the whole, mixed types",
     "SharedModules.TrainAsInOneProcess SharedModulesOnce.MixedTypesTrainAsInOneProcess"),
    (BACKWARDS, "branches that differ between ranks", "DataParallelProperty.EqualsOneProcess"),
    (BACKWARDS, "LBFGS with the mean loss, and with a rank's own",
     "NeedsMore.LbfgsWithTheMeanLoss NeedsMore.LbfgsWithALocalLossIsAnErrorThatSaysWhy"),
    (BACKWARDS, "sums, masks and ignored labels",
     "NeedsMore.SumsTimesTheNumberOfRanks NeedsMore.LossesOverTheLabelsThatCount"),
    (BACKWARDS, "complex parameters, and loaders of one's own",
     "NeedsMoreData.PairsOfRealNumbersTrainAsAComplexParameter "
     "NeedsMoreData.ALoaderOfOnesOwnIsCutIntoTheRanksParts NeedsMoreData.ASeedForEachRankGivesEachItsOwnDraws"),
    (BACKWARDS, "SyncBatchNorm with inputs of 16 bits", "SyncBatchNorm.ComputesInputsOf16BitsInFp32"),
    (WEIGHTS, "decay, bounds, norms and averages written by every rank under fuse",
     "SharedWrite.OperationsOfEveryRankCountOnce SharedWrite.ViewsFollowTheirParameter "
     "SharedWrite.ListsOfWeightsCountOnce"),
    (WEIGHTS, "an average that rank 0 alone swaps in and back", "SharedWrite.OneRankMayWriteAndTakeItBack"),
    (WEIGHTS, "values that differ between ranks, or writes by address",
     "SharedWrite.ValuesThatDifferAreRefused FuseWriteOnce.WarnsWhereRanksWriteToOneMemoryByAddress"),
    (OPTIONS, "a last step that one rank leaves out, buffers of each rank's own at the end",
     "SameWeights.AreNotWhatALastStepOfOneRankLeaves SameWeights.NamesTheFirstTensorThatDiffersOnEveryRank "
     "SameWeights.AreThereOnceRank0sBuffersAreSentAfterTheLastForward"),
    (WEIGHTS, "state() of a fused optimizer that is cleared", "FuseLoad.AClearedStateIsThatOfAnOptimizerThatIsNotFused"),
    (WEIGHTS, "clip_grad_value_ and another optimizer after fuse",
     "FuseMisuse.RefusesToClipByValue FuseWrite.AnotherOptimizerAfterTheStepIsRefused"),
    (DATA, "other rows, order, labels or arguments on one rank, in training and evaluation",
     "OtherData.IsRefusedOnAllRanksWithTheFirstDifference TrainingData.AnEvaluationByOtherWeightsIsRefused "
     "TrainingData.AnEvaluationOrPredictionIsRefusedToo"),
    (DATA, "a file that changes while its training runs",
     "ChangedData.AProcessThatReadsAnotherFileTakesNoLostRanksPlace "
     "ChangedData.TheLaunchersMemoryIsNotContinuedWithAnotherFile"),
    (DATA, "a checkpoint that is continued with other data, also with flags that change nothing",
     "OtherDataThanSaved.AreRefused ResumedReviews.WithFlagsThatChangeNothingStillComparesSamples"),
    (DATA, "elastic_loop over other data, which every restart repeated",
     "ElasticLoopJobs.RanksThatReadOtherDataAreRefused"),
    (DATA, "gather_for_metrics of flattened tokens, of half a batch, or after an inner loop: elements were lost",
     "GatherForMetrics.RefusesATensorWhoseFirstDimensionIsNotTheBatch "
     "GatherForMetrics.RefusesFlattenedBatchesOfTorchLoaders GatherForMetrics.RefusesOnAllRanksWhatOneRankGives "
     "GatherForMetrics.IsNotCutByALoopAroundTheOneThatHasEnded GatherForMetrics.TakesTheInnermostLoopThatRuns"),
    (DATA, "gather_for_metrics after its loop, which counts repeated samples",
     "GatherForMetrics.AfterItsLoopWarnsOnceOfRepeatedSamples GatherForMetrics.AfterALoopOverATorchLoaderWarns"),
    (DATA, "labels that differ by case, blanks or invisible characters alone, or are one number written in two ways",
     "Spellings.ThatAreProbablySlipsAreWarnedAbout ClassCountsLine.HasTheMostFrequentFirstAndOfManySome"),
    (DATA, "one label with a fraction, which makes a regression of a classification",
     "TrainNumbers.AreSaidWithTheLabelThatMakesThem"),
    (OPTIONS, "ACCELERATE_MIXED_PRECISION on one rank, at a resume, in training_args.json",
     "MixedPrecision.OfTheEnvironmentIsSavedAndComparedAsAnArgument FsdpArguments.OfTheEnvironmentAreWrittenIntoThem"),
    (ROWS, "a .tsv file with plain quotes, as GLUE's: rows were joined",
     "RowsOfTables.QuotesArePlainCharactersIfAFlagSaysSo RowsOfTables.JoinedLinesAreSaidByATraining "
     "JoinedRows.OfATableWithTabsAreSaidWithTheirLine"),
    (ROWS, "a table without a header: its first row was lost",
     "RowsOfTables.WithoutAHeaderColumnsAreNumbered JoinedRows.TheFirstRecordOfATableWithoutAHeaderIsARow"),
    (ROWS, "rows that --invalid-texts, --empty-texts and --missing-labels leave out",
     "RowsOfTables.RowsThatAreLeftOutAreCounted JoinedRows.ThatAreLeftOutAreCountedAtTheUsualLevel"),
    (ROWS, "a lone quote in a .csv file, which joined rows, one of them with a rare label or a blank field",
     "JoinedRows.OfALoneQuoteAmongCommasAreSaidToo "
     "JoinedRows.OfATableOfNumbersAreSaid"),
    (ROWS, "--quoting, --no-header and --delimiter, which tables of numbers and tokenizer train ignored",
     "RowsOfTables.TablesOfNumbersAreReadAsFlagsSay RowsOfTables.TablesOfNumbersSayWhichColumnIsMissing "
     "TokenizerTrain.ReadsTablesWithoutQuotesOrHeader"),
    (ROWS, "--delimiter beside a .tsv file or JSON Lines, and .tsv in a folder's name",
     "Dialects.AreDecidedByTheEndOfTheFilesOwnName Dialects.AreThoseOfAFlagWhateverTheNameSays "
     "Dialects.OfTextsAreThoseOfAFlagToo CsvDialect.IsWhatTheFilesOwnNameSaysUnlessOneIsGiven"),
    (ROWS, "pandas' index, which became a feature", "TableColumns.WithoutANameAreNoFeatures"),
    (ROWS, "decimal commas, thousands, percent, currencies, dates and names in a table: each value became a category",
     "ColumnWords.ThatWereProbablyMeantOtherwiseAreWarnedAbout NumberSpelling.OfColumnsIsSaidByATraining "
     "NumberSpelling.SaysHowProgramsWriteTheNumber NumberSpelling.KnowsDates"),
    (ROWS, "labels with a decimal comma or a blank, which became classes",
     "NumberSpelling.OfLabelsIsSaid NumberSpelling.OfLabelsIsSaidByATraining"),
    (WORDS, "one label among numbers that is not one: the refusal named another label and no row",
     "NumberSpelling.OfOneLabelAmongFractionsIsRefusedWithItsRow"),
    (ROWS, "lines that end with CR, of which lockstep predict made one", "PredictBadInput.LinesEndAsTheyDoInATraining "
     "TokenizeCommand.LinesMayEndWithCr"),
    (ROWS, "line breaks and end-of-text tokens in language modelling",
     "PackedTexts.KeepTheirLineBreaks PackedTexts.AreCutInGroupsOfAThousandRows"),
    (ROWS, "a step in which no token counts", "StepsWithoutLabels.HaveALineInTheLog"),
    (SETTINGS, "tie_word_embeddings beside another lm_head.weight",
     "TiedWeights.AreUntiedWithAWarningIfTheFileHasTwoThatDiffer "
     "TiedWeights.AreOneIfTheFileHasOneOrTheOtherOrEqualOnes "
     "TiedWeights.ABiasIsTheOneThatScoresIfTheFileHasTwoThatDiffer "
     "LoadedWeights.ReportATensorWhoseParameterTheFileHasTwice InspectCommand.WarnsOfTiedTensorsThatDiffer"),
    (SETTINGS, "a checkpoint, or the launcher's memory, that is continued with another config.json or tokenizer",
     "ModelChanges.AreNamedWithBothValuesWhenATrainingResumes ModelChanges.AreAChangeSinceTheLaunchersMemory "
     "ModelChanges.ATokenizerThatMakesOtherSamplesIsNamed ResumedReviews.WithAnotherActivationOrTokenizerSaysSo"),
    (SETTINGS, "truncation_side and other settings of tokenizer_config.json",
     "TokenizerSettings.TruncationSideIsWhereTextsAreCut TokenizerSettings.FurtherSpecialTokensAreFoundInTexts "
     "TokenizerSettings.ModelInputNamesSayWhetherPairsHaveTypes TokenizerSettings.StayWhenTheTokenizerIsSaved"),
    (SETTINGS, "a vocabulary with capitals that is lower-cased",
     "TokenizerSettings.AVocabularyWithCapitalsThatIsLowerCasedIsSaid"),
    (SETTINGS, "generation_config.json",
     "GenerationSettingsOfAFolder.AreTakenIfNoFlagSaysMore GenerationSettingsOfAFolder.ThatAreNotAppliedAreNamed"),
    (SETTINGS, "dtype in config.json", "Config.TheSavedOneNamesNoPrecision"),
    (SIGNALS, "SIGUSR1 and other warnings of a batch system, to the launcher or to all processes",
     "Warned.RanksSaveAndTheLauncherEndsWithTheirCode WarnedBySigusr1.AllProcessesOfTheJobMayGetItAtOnce "
     "TrainCommandWarned.SavesAndEndsWithTheCodeOnWhichScriptsQueueAgain "
     "StopSignal.TakesNoteOfEveryWarningOfABatchSystem"),
    (SIGNALS, "a script of lockstep slurm that is warned, saved, queued again and continued",
     "SlurmWarning.ToALauncherOnEachHostSavesAndQueuesAgainWithEqualBits"),
    (SIGNALS, "a script whose launcher loses the warning or has no place",
     "LauncherCheck.Finds SbatchLauncher.GetsThePlaceOfItsHost"),
    (LOG, "a row of the log that was lost with the first rank",
     "LostLogs.AreThoseAfterTheLastOneInTheFile JobMemory.TheNextFirstRankWritesWhatTheLostOneHasNot"),
    (LOG, "a best metric that is NaN each time",
     "LaterLogs.AMetricThatIsNanEachTimeIsWarnedAboutAndTheLastWeightsStay "
     "LaterLogs.WithoutAnEvaluationTheLastWeightsStay"),
    (LOG, "the final evaluation, which the report and TensorBoard lacked",
     "LaterLogs.AnEvaluationAfterTheTrainingIsInTheLogTheReportAndTensorBoard"),
    (LOG, "train_loss after a resume", "Resume.EndsWithTheSameBits"),
    (LOG, "two trainings in one folder",
     "TrainBadInput.ASecondTrainingInTheSameFolderIsRefusedWithTheFirstOnesProcess "
     "TwoTrainings.NoneBeginsInTheFolderOfOneThatHasLostItsFirstRank"),
    (LOG, "another training in a folder whose locks somebody has removed, or in a folder inside of it",
     "TrainingFolder.AFirstRankNoticesThatAnotherTrainingWasInItsFolder "
     "TrainingFolder.NoTrainingBeginsInTheFolderOfAnother EvaluateFolder.WritesIntoNoFolderInWhichATrainingRuns"),
    (LOG, "all_results.json with metrics of two models",
     "EarlierResults.AreNotMixedWithThoseOfATrainingThatStartsOver EarlierResults.StayBesideTheirModel"),
    (SETTINGS, "a trained head whose rows get other labels, and a new head that is judged",
     "HeadLabels.KeepTheNumbersThatTheModelGivesThem HeadLabels.OfSeveralLabelsATextKeepTheirNumbersToo "
     "HeadLabels.AreNotJudgedByAHeadThatIsNew"),
    (LOG, "secrets of a command line in the log and the report", "HiddenSecrets.AreHiddenInEveryForm "
     "HiddenSecrets.AreHiddenOverSeveralWords HiddenSecrets.AreHiddenInAddresses HiddenSecrets.HaveManyNames"),
    (DATA, "arguments that differ between ranks and were not compared, such as save_total_limit",
     "TrainingData.EveryArgumentIsComparedOrMayDiffer"),
    (LOG, "a report of an earlier training in the same folder",
     "ReportData.IsOfTheLastTrainingAndOfTheTimeInWhichItRan"),
    (SIGNALS, "a signal that the launcher gets twice at once, as from timeout",
     "Stop.ASignalThatComesTwiceAtOnceIsOneRequest Stop.SignalsOfTwoKindsAtOnceAreOneRequest"),
    (SIGNALS, "a terminal that is closed", "StopSignal.SignalsOfSeveralKindsAtOnceAreOneRequest"),
    (SIGNALS, "a warning that arrives while the ranks are being loaded",
     "WarnedBySigusr1.ARankThatDoesNotHandleItYetGetsItLater"),
    (SIGNALS, "a spare that is killed while it is being loaded", "Spares.OfSeveralRanksAreCountedApart"),
    (LOG, "a descriptor for each lost rank", "ManyLosses.LeaveNoDescriptorsOpen"),
    (LOG, "files that a killed process left half written",
     "TrainingFolder.FilesThatKilledProcessesHaveLeftAreRemoved"),
    (SIGNALS, "a guard process of the launcher that is killed or stopped, after which nothing ended the ranks",
     "DisturbedGuard.NothingOfTheJobOutlivesAKilledLauncher DisturbedGuard.TheJobEndsAsEver"),
    (LOG, "restarts that an error burns which every start must repeat",
     "MissingCompanion.RanksAreNotStartedAgain DataErrors.OfOneFileAreSaidOnce "
     "Restarts.AreNotSpentOnARankThatRefusesItsArguments"),
    (WORDS, "--batch-size, --epochs, -np and other flags of other programs",
     "FlagSynonyms.OtherProgramsFlagsAreNotTheNearestName FlagSynonyms.NumbersOfRanksAreNamedAsByMpi"),
    (WORDS, "train_sampling_strategy, activation_checkpointing and arguments with another name here",
     "TrainingArguments.NewNamesOfHuggingFaceWork RefusedArguments.NameTheFlagAndTheFix"),
    (WORDS, "zip, Arrow and Parquet files under other names, folders of datasets and of images",
     "ForeignFiles.AreCalledByTheirFormat ForeignFolders.OfDatasetsAndOfImagesSaySo"),
    (WORDS, "JSON that is neither rows nor SQuAD's, a lone surrogate", "ForeignJson.IsToldFromRowsAndFromSquad"),
    (WORDS, "models of other tasks and types, BERT without --mlm, merge-weights of a whole model",
     "ForeignModels.AreRefusedBeforeTheirTokenizerAndWithTheCure"),
    (WORDS, "a validation file without labels", "ForeignRows.WithoutLabelsAreForPredict"),
    (WORDS, "one data error, printed by every rank and the launcher",
     "DataErrors.OfOneFileAreSaidOnce DataErrors.OfFilesThatDifferAreSaidOnce"),
    (WORDS, "a program that lockstep launch cannot start: where was lockstep run", "BadCommands.EndWithAClearError"),
    (WORDS, "a line of JSON that lacks a field: the columns were listed as none", "RefusedText.SaysFileRowAndField"),
    (WORDS, "lockstep config, which said that nothing shards parameters",
     "ConfigQuestions.WriteFilesForFsdp ConfigQuestions.LeaveOutWhatAStageOfFsdpHasNot"),
    (WORDS, "an example that is not built or not on the PATH",
     "Programs.ThatAreExamplesAreBuiltOrPutOnThePathAsTheErrorSays"),
    (WORDS, "a checkpoint that is continued with a further class: the error was about shapes of weights",
     "OtherDataThanSaved.AreRefusedByTheirNumberOfClassesBeforeAnyWeights"),
    (WORDS, "a validation file on one rank alone: the other was said to have a program's dataset",
     "TrainingData.ARankWithoutEvaluationDataIsSaidToHaveNone"),
    (LOG, "a refused training, which left an empty folder behind",
     "OtherDataThanSaved.LeaveNoFolderBehindThatTheRefusedTrainingHasMade"),
    (WORDS, "rows without a text, in the examples that train",
     "DdpReviews.LeavesOutRowsWithoutAText"),
    (PAGES, "lessons whose numbers no run had printed, and examples without a seed",
     "ctest:lessons_rules DdpMnist.TwoTerminalsShowWhatTheLectureShows"),
    (PAGES, "blocks of code of the reference that do not compile", "ctest:reference"),
    (PAGES, "the memory of 1024 ranks on one host", "EstimateMemory.PutsTheRanksOfALargeJobOnManyHosts"),
    (PAGES, "a benchmark beside a peer that fails",
     "BenchRestart.PrintsBothWaysOfStartingAgainBesideAPeerThatFails"),
]

TEST = re.compile(r"^(?:TYPED_)?TEST(?:_P|_F)?\((\w+),\s*(\w+)\)", re.M)
PROGRAM_OF = {"tests/e2e/launcher": "e2e_launcher_test", "tests/data/text": "data_text_test"}


def programs_of_tests(source):
    """The programs that have a test, by its name."""
    found = {}
    for path in sorted((source / "tests").rglob("*_test.cpp")):
        folder = path.relative_to(source).parent.as_posix()
        known = [program for start, program in PROGRAM_OF.items() if (folder + "/").startswith(start + "/")]
        program = known[0] if known else folder.split("/")[1] + "_test"
        for suite, name in TEST.findall(path.read_text()):
            found.setdefault(f"{suite}.{name}", set()).add(program)
    return found


def entries_of_ctest(source):
    return set(re.findall(r"add_test\(NAME (\w+)", (source / "tests/CMakeLists.txt").read_text()))


def missing(source, faults):
    tests, entries = programs_of_tests(source), entries_of_ctest(source)
    return [f"{what}: there is no test {test}" for _, what, names in faults for test in names.split()
            if (test[len("ctest:"):] not in entries if test.startswith("ctest:") else test not in tests)]


def gtest_filter(tests):
    return ":".join(f"{test}:*/{test}/*:{test}/*:*/{test}" for test in tests) + "-*Long.*:*Long/*"


def heed_signals():
    """As ctest starts its tests: nohup, and a shell's &, leave signals ignored, which a program then does, too."""
    for each in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)


def run_program(build, program, tests):
    """The state of each test: passed, failed or skipped; not there if none ran."""
    path = build / "bin" / program
    if not path.exists():
        return {test: f"{program} is not built" for test in tests}
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.xml"
        done = subprocess.run([path, "--gtest_filter=" + gtest_filter(tests), f"--gtest_output=xml:{out}",
                               "--gtest_brief=1"], env=environment, preexec_fn=heed_signals)
        if not out.exists():
            return {test: f"{program} ended with {done.returncode}" for test in tests}
        cases = xml.etree.ElementTree.parse(out).getroot().iter("testcase")
    states = {}
    for case in cases:
        name = f"{case.get('classname').split('/')[-1]}.{case.get('name').split('/')[0]}"
        failed, skipped = case.find("failure") is not None, case.find("skipped") is not None
        state = "failed" if failed else "skipped" if skipped else "passed"
        states[name] = max(states.get(name, state), state, key=["skipped", "passed", "failed"].index)
    return {test: states.get(test, "did not run") for test in tests}


def run_entry(build, test):
    done = subprocess.run(["ctest", "--test-dir", build, "-R", f"^{test[len('ctest:'):]}$", "--no-tests=error",
                           "--output-on-failure"])
    return "passed" if done.returncode == 0 else "failed"


def run(source, build, faults):
    programs = programs_of_tests(source)
    wanted, states = {}, {}
    for test in dict.fromkeys(test for _, _, names in faults for test in names.split()):
        if test.startswith("ctest:"):
            states[test] = run_entry(build, test)
        else:
            wanted.setdefault(min(programs[test]), []).append(test)
    for program, tests in wanted.items():
        states.update(run_program(build, program, tests))
    bad = 0
    for kind in dict.fromkeys(kind for kind, _, _ in faults):
        print(f"\n{kind}")
        for _, what, names in (fault for fault in faults if fault[0] == kind):
            others = [f"{test}: {states[test]}" for test in names.split() if states[test] != "passed"]
            bad += any(not other.endswith(": skipped") for other in others)
            print(f"  {'; '.join(others) or 'ok'}  {what}")
    print(f"\n{len(faults) - bad} of {len(faults)} faults are shown to be mended")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", default="", help="a pattern: faults whose line in --list has it")
    parser.add_argument("--list", action="store_true", help="prints the faults and their tests")
    parser.add_argument("--check", action="store_true", help="looks only whether the tests are there")
    flags = parser.parse_args()
    lines = [f"{kind}: {what}\n    {names}" for kind, what, names in FAULTS]
    faults = [fault for fault, line in zip(FAULTS, lines) if re.search(flags.only, line)]
    if not faults:
        sys.exit(f"nothing in the list has {flags.only}")
    if wrong := missing(flags.source.resolve(), faults):
        sys.exit("\n".join(wrong))
    if flags.list:
        print("\n".join(line for fault, line in zip(FAULTS, lines) if fault in faults))
    return 0 if flags.list or flags.check else run(flags.source.resolve(), flags.build.resolve(), faults)


if __name__ == "__main__":
    sys.exit(main())
