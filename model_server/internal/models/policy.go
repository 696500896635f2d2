package models

import (
	"slices"

	"afo/model_server/internal/config"
)

// mostPassedOver bounds for how many versions that cannot be loaded older ones are loaded instead: where all fail, it is
// not for the versions.
const mostPassedOver = 8

// standing is what became of a version that was found.
type standing int

const (
	untried standing = iota
	served
	failed
)

// wanted says which versions a policy picks of those on disk (newest first), the newest first. Of the latest ones those
// that failed do not count, though they are wanted still.
func wanted(policy config.Versions, found []candidate, of func(int64) standing) []candidate {
	switch {
	case policy.All:
		return found
	case policy.Specific != nil:
		return slices.DeleteFunc(slices.Clone(found), func(each candidate) bool {
			return !slices.Contains(policy.Specific, each.number)
		})
	default:
		return latestOf(policy.Latest, found, of)
	}
}

func latestOf(count int, found []candidate, of func(int64) standing) []candidate {
	var picked []candidate
	passedOver := 0
	for _, each := range found {
		if count == 0 {
			break
		}
		switch is := of(each.number); {
		case is == served || passedOver < mostPassedOver && is == untried:
			count--
		case passedOver < mostPassedOver:
			passedOver++
		default:
			continue
		}
		picked = append(picked, each)
	}
	return picked
}

// numbersOf is what the policy wants served. A version that is named in the configuration is wanted whether or not its
// directory is still there: what is loaded needs it no more.
func numbersOf(policy config.Versions, picked []candidate) []int64 {
	if policy.Specific != nil {
		return policy.Specific
	}
	return numbersIn(picked)
}

func numbersIn(candidates []candidate) []int64 {
	numbers := make([]int64, 0, len(candidates))
	for _, each := range candidates {
		numbers = append(numbers, each.number)
	}
	return numbers
}
