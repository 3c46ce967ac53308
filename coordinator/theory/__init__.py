"""What follows from trees and symmetry without a run."""
