"""Results that follow from trees and symmetry without a run."""
